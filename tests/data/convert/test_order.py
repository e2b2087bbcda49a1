"""Sorting: keys, cuts of runs by rank, runs on disk - against a full sort of plain Python values."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.convert import ranks, runs
from data.convert.keys import keys_of, order_of
from data.convert.ranks import Ranks, in_order
from data.convert.rows import Converted
from data.convert.runs import RunBuilder, RunReader, load_runs, sampled_keys

VALUES = st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=40)


def table_of(rows: list[tuple]) -> pa.Table:
    return pa.table({name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate("ab")})


def python_key(row: tuple) -> tuple:
    return tuple((value is not None, value or 0) for value in row)


@settings(deadline=None, max_examples=150)
@given(ROWS)
def test_rows_are_ordered_nulls_first_and_stably(rows):
    expected = sorted(range(len(rows)), key=lambda i: python_key(rows[i]))
    table = table_of(rows)
    assert order_of(table, ["a", "b"]).tolist() == expected
    assert np.argsort(keys_of(table, ["a", "b"]), kind="stable").tolist() == expected


@settings(deadline=None, max_examples=150)
@given(st.lists(ROWS, max_size=5), st.integers(1, 7))
def test_cuts_hold_the_first_rows_of_all(parts, step):
    parts = [sorted(part, key=python_key) for part in parts if part]
    whole = sorted(
        ((python_key(row), run, i) for run, part in enumerate(parts) for i, row in enumerate(part)),
    )
    keys = [keys_of(table_of(part), ["a", "b"]) for part in parts]
    samples = np.sort(np.concatenate([array[::step] for array in keys])) if keys else np.zeros(0, "S18")
    for rank in range(len(whole) + 1):
        expected = [sum(1 for _, run, _ in whole[:rank] if run == k) for k in range(len(parts))]
        assert Ranks(keys, samples).cut(rank).tolist() == expected
        before = np.cumsum([0, *map(len, parts)])
        simple = [min(max(rank - before[k], 0), len(part)) for k, part in enumerate(parts)]
        assert in_order(np.array([len(part) for part in parts], np.int64), rank).tolist() == simple


def test_a_cut_reads_at_most_a_step_of_each_run():
    rng = np.random.default_rng(0)
    keys = [np.sort(rng.integers(0, 2**40, 50_000)).astype(">u8").view("S8") for _ in range(4)]
    read = []

    class Watched(np.ndarray):
        def __getitem__(self, item):
            if isinstance(item, slice):
                read.append(item.stop - item.start)
            return super().__getitem__(item)

    samples = sampled_keys(keys)
    cut = Ranks([array.view(Watched) for array in keys], samples).cut(123_456)
    assert cut.sum() == 123_456
    assert 0 < max(read) <= ranks.SAMPLE_STEP


def build(folder: str, rows: list[tuple], sort: tuple[str, ...], run_bytes: int, start: int = 0) -> list:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    builder = RunBuilder(folder, 0, start, sort, schema, run_bytes)
    made = []
    for first in range(0, len(rows), 10):
        batch = table_of(rows[first : first + 10]).cast(schema).combine_chunks().to_batches()[0]
        run = builder.add(Converted(batch, np.arange(batch.num_rows), [], {"a": 1}), start + first + batch.num_rows)
        made += [run] if run else []
    return [*made, builder.flush(start + len(rows), last=True)]


@pytest.fixture
def rows() -> list[tuple]:
    rng = np.random.default_rng(1)
    return [(int(a), int(b)) for a, b in zip(rng.integers(0, 9, 200), rng.integers(-(2**60), 2**60, 200))]


def test_runs_are_sorted_on_disk_and_read_from_any_row(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(runs, "_LEAST_BATCH_ROWS", 7)
    monkeypatch.setattr(runs, "BATCH_BYTES", 112)
    made = build(str(tmp_path), rows, ("a", "b"), 16 * 50)
    assert [run.rows for run in made] == [50, 50, 50, 50, 0]
    assert made[0].batch_rows == 7
    for number, run in enumerate(made[:4]):
        expected = sorted(rows[50 * number : 50 * number + 50])
        reader = RunReader(str(tmp_path), run)
        for first, last in ((0, 50), (13, 14), (14, 49), (3, 30)):
            found = [row for batch in reader.rows(first, last) for row in zip(*batch.to_pydict().values())]
            assert found == expected[first:last]
        reader.close()


def test_half_written_and_damaged_runs_are_done_again(tmp_path, rows):
    made = build(str(tmp_path), rows, ("a",), 16 * 50)
    assert load_runs(str(tmp_path), [0]) == [made]
    with open(tmp_path / made[2].data.name, "rb+") as file:
        file.seek(40)
        file.write(b"x")
    (tmp_path / "left.arrow").write_bytes(b"half")
    (tmp_path / "000000-000000000150-beef.json").write_text("{")
    assert load_runs(str(tmp_path), [0]) == [made[:2]]
    assert len(os.listdir(tmp_path)) == 6  # two runs of rows, keys and a JSON file
    assert load_runs(str(tmp_path), [5]) == [[]]


def test_runs_that_overlap_count_once(tmp_path, rows):
    first = build(str(tmp_path), rows, ("a",), 16 * 50)
    build(str(tmp_path), rows[50:], ("a",), 16 * 30, start=50)
    (found,) = load_runs(str(tmp_path), [0])
    assert sum(run.rows for run in found) == 200
    assert [run.start for run in found] == [0, *[run.end for run in found[:-1]]]
    assert found[0] == first[0]
