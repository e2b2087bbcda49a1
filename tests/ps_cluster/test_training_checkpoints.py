"""Checkpoints of a real training: while it goes on, at its end, and as the start of another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ps_cluster.checkpoint.finding import checkpoint_at, step_folders
from ps_cluster.checkpoint.rows import rows_of
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

EVERY = 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Two workers that push whenever they like, on two PS."""
    folder = tmp_path_factory.mktemp("trained")
    small_cluster.write_samples(folder)
    checkpoint = {"every_steps": EVERY, "deltas": 1, "keep": 2}
    run = small_cluster.start(
        folder, job(checkpoint=checkpoint, cluster={"ps": 2, "workers": 2}, training__sparse_updates="asynchronous")
    )
    try:
        run.wait()
        assert run.status == 0, run.err + run.logs()
        yield run
    finally:
        run.kill_rest()


def test_checkpoints_are_told_while_training_goes_on(trained: Run) -> None:
    steps = trained.events("step")[-1]["step"]
    saved = trained.events("checkpoint")
    # On a machine with much to do a save may still be written when the next one is due.
    left_out = trained.events("checkpoint_failed")
    assert all(event["problem"].startswith("left out: ") for event in left_out)
    due = {*range(EVERY, steps + 1, EVERY), steps}
    assert {event["step"] for event in (*saved, *left_out)} == due
    assert saved[-1]["step"] == steps
    assert not saved[0]["delta"]
    kept = step_folders(str(trained.output / "checkpoint"))
    newest = checkpoint_at(str(trained.output))
    bases = {one.step for one in newest.chain}
    assert newest.step == steps
    assert set(kept) >= {steps, *bases}
    assert len(kept) <= 3
    assert trained.events("saved")[0]["path"] == newest.folder
    assert f"checkpoint of step {saved[0]['step']}: " in trained.logs()


def test_another_training_starts_with_its_tables(trained: Run, tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    start = {"from": str(trained.output), "tables": ["items", "user"], "take": "all"}
    run = small_cluster.start(
        tmp_path,
        job(checkpoint={"warm_start": start}, cluster={"ps": 1, "workers": 1}, training__epochs=1, data__test=[]),
    )
    try:
        run.wait()
        assert run.status == 0, run.err + run.logs()
    finally:
        run.kill_rest()
    source = checkpoint_at(str(trained.output))
    (told,) = run.events("warm_start")
    rows = {name: sum(len(block.keys) for block in rows_of(source, name)) for name in ("items", "user")}
    # Of a chain, rows that changed again are put in again.
    assert told["path"] == source.folder
    assert told["tables"].keys() == rows.keys()
    assert all(told["tables"][name] >= rows[name] for name in rows)
    # The embeddings of the first training are worth something from the first step on.
    cold, warm = trained.losses()[0], run.losses()[0]
    assert warm < cold


def test_a_warm_start_from_nothing_is_one_line(tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    start = {"from": str(tmp_path / "nowhere")}
    run = small_cluster.start(tmp_path, job(checkpoint={"warm_start": start}, cluster={"ps": 0, "workers": 1}))
    try:
        run.wait()
    finally:
        run.kill_rest()
    assert run.status != 0
    assert f"{tmp_path}/nowhere/checkpoint: expected a checkpoint, found none" in run.err
