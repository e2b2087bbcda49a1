"""What a job loses when its processes are killed: rows, AUC, time; for both ways of recovery.

`job`, `shard`: one training on a synthetic log with 3 PS and 2 workers, of which random processes get kill -9, some
of them a few seconds after the one before, where the job may still be starting again; against the same training
undisturbed, of three seeds. 8 kills; `--full`: 30.

Rows are counted in the tables, not by what the trainer says: each row of the log has a number, which is a feature whose
table counts how often it was trained. With `recovery: job` every row must have been trained exactly once. With `shard`
the tables of a lost PS go back to the checkpoint, so rows that were trained since may be missing there, but no more
than were trained in that time; rows of broken-off steps may count twice.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from data.orc_writer import OrcWriter
from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile
from tests.bench.quality import run_command
from tests.bench.reporting import Result, run_cases
from tests.ps_cluster import small_cluster

PS, WORKERS = 3, 2
_BATCH = 64
_STEPS_A_KILL = 30
_SOON_SECONDS = 8.0
_SOON_SHARE = 0.25
_LIMIT_SECONDS = 3600.0
_SEEDS = (1, 2, 3)
# Of the AUC of one run from that of the undisturbed ones, where their spread is smaller.
_AUC_NOISE = 0.01

JOB: dict[str, Any] = {
    "name": "chaos",
    "data": {"train": ["../samples/train-*.orc"], "test": ["../samples/test-*.orc"], "label": "label"},
    "features": [
        {"name": "row", "kind": "id", "table": "rows", "missing": -1},
        *({"name": name, "kind": "id", "dim": 8} for name in ("user_id", "user_1", "user_2", "category", "item_1")),
        {"name": "item_id", "kind": "id", "table": "items"},
        {"name": "history", "kind": "id_list", "table": "items", "pooling": "mean"},
        *({"name": name, "kind": "dense"} for name in ("price", "item_age", "activity")),
    ],
    "tables": {
        "items": {"dim": 8},
        # It counts, and learns nothing.
        "rows": {"dim": 1, "initializer": {"kind": "zeros"}, "optimizer": {"name": "sgd", "learning_rate": 1e-30}},
    },
    "model": {"name": "deepfm", "hidden": [32], "dense_transform": "none"},
    "optimizers": {
        "sparse": {"name": "adam", "learning_rate": 0.005},
        "dense": {"name": "adam", "learning_rate": 0.005},
    },
    "training": {"batch_size": _BATCH, "log_every_steps": 10},
    "checkpoint": {"every_steps": 15, "keep": 2, "deltas": 3},
    "cluster": {"ps": PS, "workers": WORKERS},
    "output": "out",
}


@dataclass(frozen=True)
class Ended:
    """A run that has ended well.

    lost_seconds: of each kill, from it to the first step that was trained after it, where no other kill came between.
    """

    auc: float
    seconds: float
    kills: list[str]
    lost_seconds: list[float]
    last: LastStep
    counted: np.ndarray
    restarts: list[Mapping[str, Any]]
    recovered: list[Mapping[str, Any]]


def case(recovery: str, full: bool) -> Result:
    kills = 30 if full else 8
    rows = kills * _STEPS_A_KILL * _BATCH * WORKERS
    with tempfile.TemporaryDirectory() as folder:
        numbered_log(Path(folder, "samples"), rows)
        calm = undisturbed(rows)
        wild = trained(Path(folder), "wild", _SEEDS[0], recovery, kills)
    problems = [f"undisturbed: {problem}" for one in calm for problem in wrong_counts("job", one, rows)]
    problems += wrong_counts(recovery, wild, rows)
    aucs = [one.auc for one in calm]
    gap = wild.auc - statistics.mean(aucs)
    noise = max(_AUC_NOISE, 3 * statistics.stdev(aucs))
    if abs(gap) > noise:
        problems.append(f"AUC {wild.auc:.4f} is {gap:+.4f} from the undisturbed runs'; expected at most {noise:.4f}")
    for problem in problems:
        print(f"{recovery}: {problem}", file=sys.stderr)
    calm_seconds = statistics.mean(one.seconds for one in calm)
    each = (wild.seconds - calm_seconds) / kills
    lost = sorted(wild.lost_seconds) or [float("nan")]
    missing, twice = int((wild.counted == 0).sum()), int((wild.counted - 1).clip(min=0).sum())
    return Result(
        case=recovery,
        ours=wild.auc,
        theirs=statistics.mean(aucs),
        unit="AUC",
        ratio=wild.auc / statistics.mean(aucs),
        answers_equal=not problems,
        compared="\n".join(
            [
                f"recovery: {recovery}; {rows:,} rows, {rows // _BATCH // WORKERS} steps, {PS} PS, {WORKERS} workers: "
                f"{kills} kills against undisturbed runs of {len(calm)} seeds",
                f"  killed: {', '.join(wild.kills)}",
                f"  {len(wild.restarts)} restarts, {len(wild.recovered)} times the workers went on with a new PS",
                f"  the trainer's account: {wild.last.rows:,} rows trained, {wild.last.rows_retrained:,} trained again",
                f"  the tables' account: {len(wild.counted):,} rows, {missing:,} not counted, {twice:,} counted again",
                f"  AUC {wild.auc:.4f}; undisturbed {', '.join(f'{auc:.4f}' for auc in aucs)}",
                f"  {wild.seconds:.0f} s against {calm_seconds:.0f} s: {each:.1f} s a kill; from a kill to the next "
                f"step {lost[0]:.1f} to {lost[-1]:.1f} s, median {statistics.median(lost):.1f} s, of {len(lost)}; "
                f"load {os.getloadavg()[0]:.1f}",
            ]
        ),
    )


@functools.cache
def undisturbed(rows: int) -> list[Ended]:
    """Runs in which nobody is killed; the same for both ways of recovery."""
    with tempfile.TemporaryDirectory() as folder:
        numbered_log(Path(folder, "samples"), rows)
        return [trained(Path(folder), f"calm-{seed}", seed, "job", 0) for seed in _SEEDS]


def numbered_log(folder: Path, rows: int) -> None:
    """A synthetic log whose training rows, `rows` of them, have a number each in the column `row`; of test rows -1."""
    run_command("data", "synth", str(folder), "--rows", str(rows + rows // 9 + 10), "--test-share", "0.1")
    number = 0
    for path in sorted(folder.glob("*.orc")):
        table = orc.read_table(path)
        train = path.name.startswith("train")
        if train:
            table = table.slice(0, min(len(table), rows - number))
        numbers = np.arange(number, number + len(table)) if train else np.full(len(table), -1)
        number += len(table) if train else 0
        table = table.append_column("row", pa.array(numbers, pa.int64()))
        path.unlink()
        with OrcWriter(path, table.schema) as writer:
            for batch in table.to_batches():
                writer.write(batch)
    if number != rows:
        raise SystemExit(f"expected {rows} training rows, found {number}")


def trained(folder: Path, name: str, seed: int, recovery: str, kills: int) -> Ended:
    """A whole run, during which `kills` random processes are killed; ends the benchmark when it ends badly."""
    at = folder / name
    at.mkdir()
    description = json.loads(json.dumps(JOB))
    description["training"]["seed"] = seed
    description["failures"] = {"recovery": recovery, "max_restarts": 10 * kills + 1, "same_step": 10}
    started = time.monotonic()
    run = small_cluster.start(at, description)
    try:
        killed, lost = _kill(run, kills, random.Random(seed))
        while run.launcher.poll() is None:
            if time.monotonic() - started > _LIMIT_SECONDS:
                raise SystemExit(f"{name}: did not end within {_LIMIT_SECONDS:.0f} s\n{run.logs()[-5000:]}")
            time.sleep(0.5)
        run.wait()
        if run.status != 0:
            raise SystemExit(f"{name}: status {run.status}\n{run.out[-3000:]}{run.err}\n{run.logs()[-5000:]}")
        last = _last(run)
        assert last is not None
        return Ended(
            auc=run.events("evaluation")[-1]["auc"],
            seconds=time.monotonic() - started,
            kills=killed,
            lost_seconds=lost,
            last=last,
            counted=counted(run.output),
            restarts=run.events("restart"),
            recovered=run.events("recovered"),
        )
    finally:
        run.kill_rest()


def wrong_counts(recovery: str, run: Ended, rows: int) -> list[str]:
    """What is wrong with the rows that were trained."""
    problems = []
    if run.last.rows != rows:
        problems.append(f"expected {rows} rows trained by the trainer's account, found {run.last.rows}")
    counted = np.zeros(rows, np.int64)
    counted[: len(run.counted)] = run.counted
    missing, again = int((counted == 0).sum()), int((counted - 1).clip(min=0).sum())
    step_rows = _BATCH * WORKERS
    # Of a lost PS all rows of these steps could be: the batch that was broken off, too.
    most_missing = sum(
        (one["step"] - one["checkpoint_step"]) * step_rows for one in run.recovered if recovery == "shard"
    )
    most_again = len(run.recovered) * step_rows if recovery == "shard" else 0
    if missing > most_missing:
        problems.append(f"expected at most {most_missing} rows that no table has counted, found {missing}")
    if again > most_again:
        problems.append(f"expected at most {most_again} rows counted again, found {again}")
    return problems


def _kill(run: small_cluster.Run, kills: int, chance: random.Random) -> tuple[list[str], list[float]]:
    """Kills that many processes; who was killed at which step, and how long each time no step was trained."""
    victims: list[str] = []
    clock = _Clock(run)
    for number in range(kills):
        if number and chance.random() < _SOON_SHARE:
            wait = time.monotonic() + chance.uniform(0, _SOON_SECONDS)
            _until(run, lambda wait=wait: (clock.look(), time.monotonic() > wait)[1])
        else:
            target = _STEPS_A_KILL * (number + chance.random() / 2)
            _until(run, lambda target=target: clock.look() >= target)
        role, index = chance.choice([("ps", i) for i in range(PS)] + [("worker", i) for i in range(WORKERS)])
        _until(run, lambda role=role, index=index: _pid(run, role, index))
        victims.append(f"{role} {index} at {clock.look()}")
        clock.start()
        os.kill(_pid(run, role, index), signal.SIGKILL)
    _until(run, lambda: clock.look() < 0 or not clock.runs)
    return victims, clock.lost


class _Clock:
    """Measures from a kill to the next step that is trained."""

    def __init__(self, run: small_cluster.Run):
        self._run = run
        self._killed_at = 0.0
        self._then: LastStep | None = None
        self._first: int | None = None
        self.lost: list[float] = []

    @property
    def runs(self) -> bool:
        return self._killed_at > 0

    def start(self) -> None:
        """Somebody is being killed; an earlier time that still runs is given up."""
        self._then, self._first, self._killed_at = _last(self._run), None, time.monotonic()

    def look(self) -> int:
        """The newest step."""
        last = _last(self._run)
        if last is None:
            return 0
        if self.runs:
            if self._then is not None and last.restarts == self._then.restarts:
                trains = last.step > self._then.step + 1  # the step that was under way may still have ended
            else:  # a process that goes on writes first from where
                self._first = last.step if self._first is None else self._first
                trains = last.step > self._first
            if trains:
                self.lost.append(time.monotonic() - self._killed_at)
                self._killed_at = 0.0
        return last.step


def _until(run: small_cluster.Run, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _LIMIT_SECONDS
    while not condition():
        if run.launcher.poll() is not None:
            run.wait()
            raise SystemExit(f"ended among the kills: {run.status}\n{run.out[-3000:]}{run.err}\n{run.logs()[-5000:]}")
        if time.monotonic() > deadline:
            raise SystemExit(f"stands still\n{run.logs()[-5000:]}")
        time.sleep(0.02)


def _pid(run: small_cluster.Run, role: str, index: int) -> int:
    try:
        return run.pid_of(role, index)
    except AssertionError:  # it is starting again
        return 0


def _last(run: small_cluster.Run) -> LastStep | None:
    path = run.output / LAST_STEP
    if not path.exists():
        return None
    file = LastStepFile(str(path))
    try:
        return file.read()
    finally:
        file.close()


def counted(output: Path) -> np.ndarray:
    """How often each row of the log was trained, by its number, as the last checkpoint's table has counted."""
    from ps_cluster.quiet import import_tensorflow

    import_tensorflow(gpu=False)
    from ps_cluster.checkpoint.finding import checkpoint_at
    from ps_cluster.checkpoint.rows import rows_of

    keys, counts = [], []
    for rows in rows_of(checkpoint_at(str(output)), "rows"):
        keys.append(rows.keys)
        counts.append(rows.frequencies)
    found = np.zeros(int(max(part.max() for part in keys)) + 1, np.int64)
    np.add.at(found, np.concatenate(keys), np.concatenate(counts).astype(np.int64))
    return found


if __name__ == "__main__":
    sys.exit(run_cases("chaos", {name: lambda full, name=name: case(name, full) for name in ("job", "shard")}))
