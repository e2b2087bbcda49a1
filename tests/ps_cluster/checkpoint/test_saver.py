"""Saves beside training: full ones and deltas, what stays of them, and what happens when they fail."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.checkpoint.dense import load_dense
from ps_cluster.checkpoint.finding import Checkpoint, below, newest_checkpoint, step_folders
from ps_cluster.checkpoint.manifest import Shard, StoredTable
from ps_cluster.checkpoint.rows import rows_of
from ps_cluster.checkpoint.saver import NotSaved, Saved, Saver
from ps_cluster.errors import RunError
from ps_cluster.job.schema import Job
from ps_cluster.train.session import groups_of
from tests.ps_cluster.checkpoint.trained import Trained
from tests.ps_cluster.small_job import FIELDS, batch_of, ids_of, job_of
from tests.ps_cluster.stores import look_up, store_of

AGE = 3
ITEM = FIELDS["tables"]["item"]


def delta_job(**more) -> Job:
    checkpoint = {"every_steps": 1, "deltas": 3, "keep": 100, **more.pop("checkpoint", {})}
    return job_of({"checkpoint": checkpoint, **more})


def newest(output: Path) -> Checkpoint:
    return newest_checkpoint(below(str(output)))


def state_of(checkpoint: Checkpoint, table: str) -> dict[int, tuple]:
    """Every row by key, as bytes."""
    found: dict[int, tuple] = {}
    for rows in rows_of(checkpoint, table):
        for index, key in enumerate(rows.keys.tolist()):
            assert key not in found
            columns = (rows.last_steps, rows.frequencies, rows.last_hours, rows.embeddings, rows.slots)
            found[key] = (rows.row_class, *(column[index].tobytes() for column in columns))
    return found


EVICTING = {
    "tables": {
        "item": {
            "tiers": [{"dim": 2, "min_frequency": 0}, {"dim": 4, "min_frequency": 6}],
            "optimizer": ITEM["optimizer"],
            "admission": {"kind": "exact", "threshold": 2},
            "eviction": {"max_age_steps": AGE},
        }
    }
}


@pytest.mark.parametrize("more", [{}, EVICTING], ids=["plain", "evicting"])
def test_a_chain_of_deltas_is_the_state_of_its_step(tmp_path: Path, more: dict) -> None:
    deltas, full = Trained(delta_job(**more), str(tmp_path / "deltas")), Trained(job_of(more), str(tmp_path / "full"))
    kinds, states = [], []
    for step in range(1, 9):
        for one in (deltas, full):
            one.train_until(step)
        outcome = deltas.saver.save_without_end(step)
        assert isinstance(outcome, Saved), outcome
        kinds.append(outcome.is_delta)
        assert isinstance(full.saver.save_without_end(step), Saved)
        found, want = newest(tmp_path / "deltas"), newest(tmp_path / "full")
        assert found.step == want.step == step
        for table in ("user", "item", "genres"):
            here, there = state_of(found, table), state_of(want, table)
            if table == "item" and more:  # rows that are due to go may or may not have gone
                here, there = (
                    {key: row for key, row in state.items() if step - int.from_bytes(row[1], "little") <= AGE}
                    for state in (here, there)
                )
            assert here == there
            states.append(here)
        # What is restored answers as what was saved.
        again = store_of(groups_of(deltas.job))
        again.restore(found.levels_of(again.table_names()))
        ids = ids_of(deltas.job, batch_of(np.random.default_rng(step), 30))
        for name in ("user", "shown"):
            np.testing.assert_array_equal(
                look_up(again, ids, training=False)[name], look_up(deltas.store, ids, training=False)[name]
            )
    assert kinds == [False, True, True, True] * 2
    assert any(row[0] == 0 for state in states for row in state.values()) == bool(more)


def test_a_delta_holds_what_changed_alone(tmp_path: Path) -> None:
    trained = Trained(delta_job(), str(tmp_path))
    trained.train_until(20)
    full = trained.saver.save_without_end(20)
    nothing = trained.saver.save_without_end(21)
    assert isinstance(full, Saved) and isinstance(nothing, Saved)
    tables = newest(tmp_path).manifest.tables
    assert all(table.is_delta and table.shards[0].rows == 0 for table in tables)
    trained.step = 21
    trained.train_until(22)
    trained.saver.save_without_end(22)
    (user,) = [table for table in newest(tmp_path).manifest.tables if table.name == "user"]
    assert 0 < user.shards[0].rows <= 20


def test_dense_values_are_those_of_the_same_step(tmp_path: Path) -> None:
    trained = Trained(delta_job(), str(tmp_path))
    trained.train_until(2)
    trained.saver.save_without_end(2)
    want = [weight.numpy() for weight in (*trained.model.weights, *trained.optimizer.variables)]
    trained.train_until(5)
    load_dense(newest(tmp_path), trained.model, trained.optimizer)
    for value, got in zip(want, (*trained.model.weights, *trained.optimizer.variables)):
        assert value.tobytes() == got.numpy().tobytes()


def test_the_newest_are_kept_and_what_they_are_based_on(tmp_path: Path) -> None:
    trained = Trained(delta_job(checkpoint={"keep": 2, "deltas": 2}), str(tmp_path))
    (tmp_path / "checkpoint/step-0000000077").mkdir(parents=True)
    (tmp_path / "checkpoint/step-0000000077/manifest.json").write_text("of an earlier training")
    (tmp_path / "checkpoint/notes").mkdir()
    kept = []
    for step in range(1, 8):
        trained.saver.save_without_end(step)
        kept.append(step_folders(below(str(tmp_path))))
    # Full are 1, 4 and 7.
    assert kept == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [4, 5], [4, 5, 6], [4, 5, 6, 7]]
    assert (tmp_path / "checkpoint/notes").is_dir()


class FakeTables:
    """Tables whose writing waits, or fails."""

    def __init__(self) -> None:
        self.begun: list[bool] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.problem: Exception | None = None

    def begin_save(self, folder: str, delta: bool) -> None:
        self.begun.append(delta)

    def write_save(self, folder: str, step: int, base_step: int | None) -> tuple[StoredTable, ...]:
        self.go_on.wait()
        if self.problem is not None:
            raise self.problem
        delta = self.begun[-1]
        assert (base_step is not None) == delta
        shard = Shard("user.table", 0, 1, 0, 0, 0, 0, 0, 0)
        return (StoredTable("user", "native", (2,), "float32", "sgd", 0, False, 1, delta, (shard,)),)


def fake_saver(output: Path, tables: FakeTables) -> Saver:
    return Saver(str(output), tables, lambda: {"model/0": np.zeros(3)}, {}, None, keep=2, deltas=9)


def test_a_save_is_left_out_while_another_is_written(tmp_path: Path) -> None:
    tables = FakeTables()
    saver = fake_saver(tmp_path, tables)
    tables.go_on.clear()
    saver.begin(1)
    saver.begin(2)
    assert saver.outcomes() == [NotSaved(2, "left out: that of step 1 is still being written")]
    tables.go_on.set()
    saver.wait()
    (saved,) = saver.outcomes()
    assert isinstance(saved, Saved)
    assert (saved.step, saved.is_delta, step_folders(str(tmp_path))) == (1, False, [1])
    saver.begin(3)
    saver.wait()
    assert tables.begun == [False, True]


def test_a_failed_save_leaves_the_older_and_the_next_is_full(tmp_path: Path) -> None:
    tables = FakeTables()
    saver = fake_saver(tmp_path, tables)
    saver.begin(1)
    saver.wait()
    tables.problem = OSError(28, "No space left on device", "/disk/user.table")
    saver.begin(2)
    saver.wait()
    first, second = saver.outcomes()
    assert isinstance(first, Saved)
    assert second == NotSaved(2, "/disk/user.table: No space left on device")
    assert step_folders(str(tmp_path)) == [1]
    with pytest.raises(RunError, match=r"step-0000000003: the checkpoint could not be written: .*No space left"):
        saver.save(3)
    tables.problem = None
    saver.begin(4)
    saver.wait()
    assert tables.begun == [False, True, False, False]
    assert step_folders(str(tmp_path)) == [1, 4]


def test_a_folder_that_cannot_be_made_is_an_outcome(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    saver = fake_saver(tmp_path / "file", FakeTables())
    saver.begin(1)
    (outcome,) = saver.outcomes()
    assert isinstance(outcome, NotSaved)


def test_a_last_save_whose_failure_was_told_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    saver = fake_saver(tmp_path / "file", FakeTables())
    saver.begin(1)
    assert isinstance(saver.outcomes()[0], NotSaved)
    with pytest.raises(RunError, match=r"step-0000000001: the checkpoint could not be written: "):
        saver.save(1)
    (tmp_path / "file").unlink()
    assert [type(outcome) for outcome in saver.save(1)] == [Saved]


def test_the_last_save_is_full_unless_its_step_was_saved(tmp_path: Path) -> None:
    tables = FakeTables()
    saver = fake_saver(tmp_path, tables)
    saver.begin(1)
    saver.begin(2) if not saver.wait() else None
    assert [outcome.step for outcome in saver.save(2)] == [1, 2]
    assert tables.begun == [False, True]
    assert [outcome.step for outcome in saver.save(3)] == [3]
    assert tables.begun == [False, True, False]
