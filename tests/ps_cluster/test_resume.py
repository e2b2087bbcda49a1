"""A training that was interrupted goes on as if it had not been."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ps_cluster.checkpoint.finding import Checkpoint, checkpoint_at
from ps_cluster.checkpoint.rows import rows_of
from ps_cluster.launch.ports import reserved_addresses
from tests.data import orc_files
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

STRIPES = (300, 200, 380, 260, 260)  # 1,400 rows: 44 steps of 32 an epoch
SETTINGS: dict[str, Any] = {"data__test": [], "checkpoint": {"every_steps": 10, "keep": 2}, "training__epochs": 2}


def killed(folder: Path, description: dict[str, Any], when: Callable[[Run], object], *flags: str) -> Run:
    """A run that worker 0's end by SIGKILL has ended, at such a moment."""
    run = small_cluster.start(folder, {**description, "failures": {"max_restarts": 0}}, *flags)
    try:
        run.until(lambda: when(run))
        os.kill(run.pid_of("worker", 0), signal.SIGKILL)
        run.wait()
        assert run.status == 1, run.out + run.err
    finally:
        run.kill_rest()
    return run


def after_step(step: int) -> Callable[[Run], object]:
    return lambda run: (run.events("step") or [{"step": 0}])[-1]["step"] >= step and run.events("checkpoint")


def losses_of(run: Run) -> dict[int, float]:
    """By step; of a step that was taken twice, the last one."""
    return {event["step"]: event["loss"] for event in run.events("step")}


def state_of(checkpoint: Checkpoint) -> dict[str, dict[int, tuple]]:
    """All rows of all tables by key, as bytes."""
    found: dict[str, dict[int, tuple]] = {}
    for table in checkpoint.tables():
        rows = found.setdefault(table, {})
        for block in rows_of(checkpoint, table):
            columns = (block.last_steps, block.frequencies, block.last_hours, block.embeddings, block.slots)
            for index, key in enumerate(block.keys.tolist()):
                rows[key] = (block.row_class, *(column[index].tobytes() for column in columns))
    return found


def assert_same_state(one: Run, other: Run) -> None:
    """Dense weights, optimiser and tables of the newest checkpoints are the same bit for bit."""
    found, expected = checkpoint_at(str(one.output)), checkpoint_at(str(other.output))
    assert found.step == expected.step
    assert state_of(found) == state_of(expected)
    with np.load(Path(found.folder) / "dense.npz") as here, np.load(Path(expected.folder) / "dense.npz") as there:
        assert set(here.files) == set(there.files)
        for name in there.files:
            np.testing.assert_array_equal(here[name], there[name], err_msg=name)


@pytest.mark.parametrize(
    ("ps", "more"),
    [
        pytest.param(2, {"data__reader": "native"}, marks=pytest.mark.slow),
        (0, {"data__reader": "tfio", "checkpoint__deltas": 3, "data__where": "price > -1.5"}),
    ],
    ids=["two PS, native", "no PS, tfio, deltas, where"],
)
def test_a_killed_training_goes_on_bit_for_bit(tmp_path: Path, ps: int, more: dict[str, Any]) -> None:
    description = job(**SETTINGS, cluster={"ps": ps, "workers": 1}, **more)
    runs = []
    for name in ("undisturbed", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        small_cluster.write_samples(folder, STRIPES)
        runs.append(folder)
    undisturbed = small_cluster.train(runs[0], description)
    assert undisturbed.status == 0, undisturbed.err + undisturbed.logs()
    first = killed(runs[1], description, after_step(23))
    steps_before = losses_of(first)
    refused = small_cluster.train(runs[1], description)
    assert refused.status == 2
    assert "--resume" in refused.err and "--overwrite" in refused.err
    again = small_cluster.train(runs[1], description, "--resume", "--report", str(tmp_path / "report.json"))
    assert again.status == 0, again.err + again.logs()
    (resumed,) = again.events("resume")
    assert resumed["step"] % 10 == 0 and resumed["step"] >= 10
    assert max(steps_before) >= resumed["step"]
    losses = losses_of(again)
    assert losses == losses_of(undisturbed)
    assert len([event for event in again.events("step") if event["step"] == resumed["step"] + 1]) == 2
    assert_same_state(again, undisturbed)
    assert (again.output / "logs" / "attempt-1" / "worker-0.log").exists()
    report = json.loads((tmp_path / "report.json").read_text())
    before = {event["step"]: event["rows"] for event in first.events("step")}
    assert report["restarts"] == resumed["restarts"] == 1
    # The step that was taken last may have ended before it was told.
    told = before[max(steps_before)] - before[resumed["step"]]
    assert told <= resumed["rows_retrained"] == report["rows_retrained"] <= told + 32
    assert report["rows"] == undisturbed.events("step")[-1]["rows"]
    finished = small_cluster.train(runs[1], description, "--resume")
    assert (finished.status, finished.err) == (0, "")
    assert "has finished" in finished.out


# --- Other numbers of workers and PS ---------------------------------------------------------------------------------

EPOCHS = 2


def write_numbered(folder: Path, stripes: Sequence[int] = STRIPES) -> None:
    """Samples each of which has an id of its own."""
    ends = np.cumsum(stripes)
    rows = [(number, float(number % 7), number % 3 == 0) for number in range(ends[-1])]
    schema = "struct<id:bigint,price:double,label:tinyint>"
    orc_files.write(
        folder / "train.orc",
        schema,
        [[(one, price, int(label)) for one, price, label in rows[end - n : end]] for end, n in zip(ends, stripes)],
    )


def numbered_job(ps: int, workers: int, **more: Any) -> dict[str, Any]:
    features = [{"name": "id", "kind": "id", "dim": 2}, {"name": "price", "kind": "dense"}]
    settings = {
        "data__test": [],
        "training__batch_size": 16,
        "training__epochs": EPOCHS,
        "checkpoint": {"every_steps": 9},
        "model": {"name": "dcn"},
        "tables": {},
    }
    return job(**{**settings, "features": features, "cluster": {"ps": ps, "workers": workers}, **more})


def assert_each_row_once_an_epoch(run: Run, rows: int = sum(STRIPES)) -> None:
    """By the ids that the table has counted, and by what is told."""
    frequencies: Counter[int] = Counter()
    for block in rows_of(checkpoint_at(str(run.output)), "id"):
        frequencies.update(dict(zip(block.keys.tolist(), block.frequencies.tolist())))
    assert frequencies == dict.fromkeys(range(rows), EPOCHS)
    assert run.events("step")[-1]["rows"] == EPOCHS * rows


def test_a_drained_training_goes_on_with_other_workers_and_ps(tmp_path: Path) -> None:
    write_numbered(tmp_path)
    run = small_cluster.start(tmp_path, numbered_job(ps=2, workers=2))
    try:
        run.until(lambda: after_step(21)(run))
        run.launcher.send_signal(signal.SIGTERM)
        run.wait()
    finally:
        run.kill_rest()
    assert run.status == 75, run.out + run.err
    assert run.processes() == {}
    newest = checkpoint_at(str(run.output))
    drained = f"drained at step {newest.step}: checkpoint {newest.folder}; start again with --resume to go on"
    assert run.err.splitlines()[-1] == drained
    assert newest.step == run.events("step")[-1]["step"]
    again = small_cluster.train(tmp_path, numbered_job(ps=1, workers=1), "--resume")
    assert again.status == 0, again.err + again.logs()
    (resumed,) = again.events("resume")
    assert (resumed["step"], resumed["rows_retrained"]) == (newest.step, 0)
    assert_each_row_once_an_epoch(again)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["evaluate", "export"])
def test_a_run_that_is_drained_after_training_is_evaluated_and_exported_when_it_goes_on(
    tmp_path: Path, phase: str
) -> None:
    small_cluster.write_samples(tmp_path, STRIPES, test=(1500, 1500))
    description = job(cluster={"ps": 2, "workers": 2}, training__epochs=1)
    run = small_cluster.start(tmp_path, description)
    try:
        run.until(lambda: any(event["name"] == phase for event in run.events("phase")))
        if phase == "export":
            run.until(lambda: any(" export " in line for line in run.processes().values()))
        run.launcher.send_signal(signal.SIGTERM)
        run.wait()
    finally:
        run.kill_rest()
    assert run.status == 75, run.out + run.err
    newest = checkpoint_at(str(run.output))
    drained = f"drained at step {newest.step}: checkpoint {newest.folder}; start again with --resume to go on"
    assert run.err.splitlines()[-1] == drained
    assert bool(run.events("evaluation")) == (phase == "export")
    assert [path for path in (run.output / "export").glob("*") if not path.name.startswith(".")] == []
    again = small_cluster.train(tmp_path, description, "--resume")
    print(again.out)
    assert again.status == 0, again.err + again.logs()
    (resumed,) = again.events("resume")
    assert (resumed["step"], resumed["rows_retrained"]) == (newest.step, 0)
    assert again.events("step")[-1]["rows"] == sum(STRIPES)
    assert {event["auc"] for event in again.events("evaluation")} == {again.events("evaluation")[-1]["auc"]}
    assert [path.name for path in (again.output / "export").iterdir()] == ["1"]


@pytest.mark.slow
def test_a_killed_asynchronous_training_trains_each_row_once_an_epoch(tmp_path: Path) -> None:
    write_numbered(tmp_path)
    description = numbered_job(2, 2, training__sparse_updates="asynchronous")
    first = killed(tmp_path, description, after_step(25))
    again = small_cluster.train(tmp_path, description, "--resume")
    assert again.status == 0, again.err + again.logs()
    (resumed,) = again.events("resume")
    print(resumed)
    assert 0 < resumed["step"] <= max(losses_of(first))
    assert resumed["rows_retrained"] > 0 or resumed["step"] == max(losses_of(first))
    assert_each_row_once_an_epoch(again)


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["tfio", "native"])
def test_a_training_killed_again_and_again_trains_each_row_once_an_epoch(tmp_path: Path, reader: str) -> None:
    write_numbered(tmp_path)
    flags: list[str] = []
    last = 0
    for ps, workers in ((2, 1), (1, 3), (3, 2), (2, 2)):
        description = numbered_job(ps, workers, data__reader=reader)
        run = killed(tmp_path, description, after_step(last + 15), *flags)
        last, flags = max(losses_of(run)), ["--resume"]
    again = small_cluster.train(tmp_path, numbered_job(0, 1, data__reader=reader), "--resume")
    assert again.status == 0, again.err + again.logs()
    assert [event["restarts"] for event in again.events("resume")] == [1, 2, 3, 4]
    assert_each_row_once_an_epoch(again)


# --- Every 50th step -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ps", [2, 0])
def test_from_every_50th_step_the_losses_are_those_of_the_undisturbed_run(tmp_path: Path, ps: int) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    small_cluster.write_samples(undisturbed, (700, 900, 800, 800, 800, 800))  # 4,800 rows: 150 steps an epoch
    settings = {**SETTINGS, "checkpoint": {"every_steps": 50, "keep": 99}, "cluster": {"ps": ps, "workers": 1}}
    description = job(**settings)
    run = small_cluster.train(undisturbed, description)
    assert run.status == 0, run.err + run.logs()
    losses = losses_of(run)
    assert max(losses) == 300
    for step in range(50, 300, 50):
        folder = tmp_path / str(step)
        shutil.copytree(undisturbed, folder, ignore=shutil.ignore_patterns("tmp", "events.jsonl", "export"))
        for later in (folder / "out" / "checkpoint").glob("step-*"):
            if int(later.name.removeprefix("step-")) > step:
                shutil.rmtree(later)
        (folder / "out" / "run.json").write_text('{"state": "failed"}')
        again = small_cluster.train(folder, description, "--resume")
        assert again.status == 0, again.err + again.logs()
        found = losses_of(again)
        assert found == {one: losses[one] for one in range(step + 1, 301)}
        assert_same_state(again, run)
        print(f"resumed at step {step}: {len(found)} losses equal")


# --- What is refused -------------------------------------------------------------------------------------------------


def test_a_changed_job_or_changed_files_are_refused(tmp_path: Path) -> None:
    write_numbered(tmp_path)
    description = numbered_job(0, 1, training__max_steps=9)
    run = small_cluster.train(tmp_path, description)
    assert run.status == 0, run.err + run.logs()
    (run.output / "run.json").write_text('{"state": "failed"}')
    changed = small_cluster.train(tmp_path, numbered_job(0, 1, training__batch_size=8, training__seed=6), "--resume")
    assert changed.status == 2
    assert changed.err.splitlines() == [
        f"{tmp_path}/job.yaml: training.batch_size: expected 16 as in the training to be resumed, found 8",
        f"{tmp_path}/job.yaml: training.seed: expected 5 as in the training to be resumed, found 6",
    ]
    write_numbered(tmp_path, [*STRIPES, 10])
    changed = small_cluster.train(tmp_path, numbered_job(0, 1), "--resume")
    assert changed.status == 2
    assert f"{tmp_path}/job.yaml: data.train: expected the 1 files of the training to be resumed" in changed.err


# --- PS that stay ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ps_that_outlive_an_attempt_start_the_next_one_without_its_rows(tmp_path: Path) -> None:
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "by hand"
    for one in (undisturbed, folder):
        one.mkdir()
        write_numbered(one)
    description = numbered_job(ps=2, workers=2, checkpoint={"every_minutes": 0.01, "deltas": 2})
    run = small_cluster.train(undisturbed, description)
    assert run.status == 0, run.err + run.logs()
    (folder / "job.yaml").write_text(json.dumps(description))
    (folder / "out").mkdir()
    log = (folder / "log").open("w")
    with reserved_addresses(5) as addresses:
        place = ["--ps", ",".join(addresses[:2]), "--workers", ",".join(addresses[2:4]), "--rendezvous", addresses[4]]

        def start(role: str, index: int, *flags: str) -> subprocess.Popen[bytes]:
            line = [*small_cluster.COMMAND, role, "job.yaml", *place, "--index", str(index), *flags]
            return subprocess.Popen(
                line, cwd=folder, env=small_cluster.environment(folder), stdout=log, stderr=subprocess.STDOUT
            )

        def workers(*flags: str) -> list[subprocess.Popen[bytes]]:
            return [start("worker", 0, "--events", "out/events.jsonl", *flags), start("worker", 1, *flags)]

        servers = [start("ps", index) for index in range(2)]
        here = Run(folder, servers[0])  # type: ignore[arg-type]
        try:
            first = workers()
            here.until(lambda: after_step(25)(here))
            for one in reversed(first):  # worker 0's last push waits on the PS for that of worker 1
                one.kill()
                one.wait()
            assert [server.poll() for server in servers] == [None, None]
            again = workers("--resume")
            assert [one.wait(small_cluster.PATIENCE_SECONDS) for one in again] == [0, 0], (folder / "log").read_text()
        finally:
            here.kill_rest()
            log.close()
    (resumed,) = here.events("resume")
    assert resumed["step"] > 0
    assert losses_of(here) == losses_of(run)
    assert_same_state(here, run)
    assert_each_row_once_an_epoch(here)
