"""The exported tables, sorted and hashed, find what a dictionary finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.lookup_concat import Arrangement, IdInput, Segment, lookup_concat
from ps_cluster.export.hashed_table import HashedTable
from ps_cluster.export.ordered_rows import StoredRows, ordered
from ps_cluster.export.static_table import StaticTable

LEAST, MOST = -(1 << 63), (1 << 63) - 1
KEYS = st.one_of(st.integers(-5, 20), st.integers(LEAST, MOST), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))
DIM = 3
UNKNOWN = 0.25


def check(shards: list[list[int]], ids: list[int]) -> None:
    """Every third shard has rows of one value less."""
    random = np.random.default_rng(len(ids))
    blocks, known = [], {}
    for number, keys in enumerate(shards):
        rows = random.normal(size=[len(keys), DIM - (number % 3 == 2)]).astype(np.float32)
        blocks.append((np.array(keys, np.int64), rows))
        known.update(zip(keys, np.pad(rows, [(0, 0), (0, DIM - rows.shape[1])])))
    want = np.array([known.get(key, np.full(DIM, UNKNOWN)) for key in ids], np.float32).reshape(-1, DIM)
    stored = StoredRows(lambda: iter(blocks), DIM, UNKNOWN)
    check_both(stored, np.array(ids, np.int64), want, len(known))
    projection = random.normal(size=[DIM, 2]).astype(np.float32)
    projected = (want.astype(np.float64) @ projection.astype(np.float64)).astype(np.float32)
    check_both(replace(stored, projection=projection), np.array(ids, np.int64), projected, len(known))


def check_both(stored: StoredRows, ids: np.ndarray, want: np.ndarray, num_rows: int) -> None:
    (rows,) = ordered(stored, "float32", "/nowhere", "table")
    assert rows.num_rows == num_rows
    plain, hashed = StaticTable("table", rows.width), HashedTable("table", rows.width)
    plain.fill(rows)
    hashed.fill(rows)
    np.testing.assert_array_equal(plain.lookup(ids).numpy(), want)
    dim = want.shape[1]
    arrangement = Arrangement((IdInput("ids", 0),), (), (Segment(0, 0, dim, 0, 0),), 1, dim)
    np.testing.assert_array_equal(lookup_concat(arrangement, [ids], [], [], [hashed.read()])[0].numpy(), want)


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, unique=True, max_size=30), st.lists(KEYS, max_size=20), st.integers(1, 3))
def test_it_equals_a_dictionary(keys: list[int], others: list[int], num_shards: int) -> None:
    check([keys[shard::num_shards] for shard in range(num_shards)], [*keys, *others])


@pytest.mark.parametrize("keys", [[], [MOST], [LEAST], [LEAST, MOST], [LEAST, 0, MOST]])
def test_the_ends_of_int64_are_ids_like_others(keys: list[int]) -> None:
    check([keys], [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST])


def test_without_shards_every_id_is_unknown() -> None:
    check([], [1, 2])
    check([[], []], [])


def test_many_rows_in_many_blocks_are_whole() -> None:
    keys = (np.random.default_rng(0).permutation(70_000) * 3).tolist()
    check([keys[start : start + 9_000] for start in range(0, 70_000, 9_000)], list(range(0, 210_000, 7)))
