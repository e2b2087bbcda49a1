"""A training that was interrupted goes on as if it had not been."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ps_cluster.checkpoint.finding import Checkpoint, checkpoint_at
from ps_cluster.checkpoint.rows import rows_of
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

STRIPES = (300, 200, 380, 260, 260)  # 1,400 rows: 44 steps of 32 an epoch
SETTINGS: dict[str, Any] = {"data__test": [], "checkpoint": {"every_steps": 10, "keep": 2}, "training__epochs": 2}


def killed(folder: Path, description: dict[str, Any], when: Callable[[Run], object], *flags: str) -> Run:
    """A run that worker 0's end by SIGKILL has ended, at such a moment."""
    run = small_cluster.start(folder, description, *flags)
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
        (2, {"data__reader": "native"}),
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
    again = small_cluster.start(runs[1], description)
    try:
        assert again.wait().status == 2
        assert "--resume" in again.err and "--overwrite" in again.err
        again = small_cluster.train(runs[1], description, "--resume", "--report", str(tmp_path / "report.json"))
        assert again.status == 0, again.err + again.logs()
    finally:
        again.kill_rest()
    (resumed,) = again.events("resume")
    assert resumed["step"] % 10 == 0 and resumed["step"] >= 10
    assert max(steps_before) >= resumed["step"]
    losses = losses_of(again)
    assert losses == losses_of(undisturbed)
    assert len([event for event in again.events("step") if event["step"] == resumed["step"] + 1]) == 2
    assert_same_state(again, undisturbed)
    assert (again.output / "logs" / "attempt-1" / "worker-0.log").exists()
