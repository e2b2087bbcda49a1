"""The exported table finds what a dictionary finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    table = StaticTable(lambda: iter(blocks), DIM, UNKNOWN, "table")
    assert table.num_rows == len(known)
    got = table.lookup(np.array(ids, np.int64)).numpy()
    want = np.array([known.get(key, np.full(DIM, UNKNOWN)) for key in ids], np.float32).reshape(-1, DIM)
    np.testing.assert_array_equal(got, want)


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
