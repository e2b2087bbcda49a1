"""The exported table finds what a dictionary finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.export import static_table
from ps_cluster.export.static_table import StaticTable

LEAST, MOST = -(1 << 63), (1 << 63) - 1
KEYS = st.one_of(st.integers(-5, 20), st.integers(LEAST, MOST), st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST]))
ROW_FLOATS, DIM = 5, 2


def write(folder: Path, number: int, keys: np.ndarray, rows: np.ndarray) -> tuple[str, str]:
    paths = str(folder / f"{number}-keys"), str(folder / f"{number}-values")
    keys.astype("<i8").tofile(paths[0])
    rows.astype("<f4").tofile(paths[1])
    return paths


def check(folder: Path, shards: list[list[int]], ids: list[int]) -> None:
    random = np.random.default_rng(len(ids))
    files, known = [], {}
    for number, keys in enumerate(shards):
        rows = random.normal(size=[len(keys), ROW_FLOATS]).astype(np.float32)
        known.update(zip(keys, rows[:, :DIM]))
        files.append(write(folder, number, np.array(keys, np.int64), rows))
    table = StaticTable(files, ROW_FLOATS, DIM, "table")
    assert table.num_rows == len(known)
    got = table.lookup(np.array(ids, np.int64)).numpy()
    want = np.array([known.get(key, np.zeros(DIM)) for key in ids], np.float32).reshape(-1, DIM)
    np.testing.assert_array_equal(got, want)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, unique=True, max_size=30), st.lists(KEYS, max_size=20), st.integers(1, 3))
def test_it_equals_a_dictionary(folder: Path, keys: list[int], others: list[int], num_shards: int) -> None:
    check(folder, [keys[shard::num_shards] for shard in range(num_shards)], [*keys, *others])


@pytest.mark.parametrize("keys", [[], [MOST], [LEAST], [LEAST, MOST], [LEAST, 0, MOST]])
def test_the_ends_of_int64_are_ids_like_others(folder: Path, keys: list[int]) -> None:
    check(folder, [keys], [LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST])


def test_without_shards_every_id_is_unknown(folder: Path) -> None:
    check(folder, [], [1, 2])
    check(folder, [[], []], [])


@pytest.mark.parametrize("rows", [7, 8, 9, 16, 17])
def test_blocks_end_anywhere(folder: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_table, "_BLOCK_ROWS", 8)
    keys = np.random.default_rng(rows).permutation(100)[: 2 * rows + 3].tolist()
    check(folder, [keys[:rows], [], keys[rows:]], list(range(-1, 101)))


def test_a_table_of_more_than_one_block_is_whole(folder: Path) -> None:
    keys = (np.random.default_rng(0).permutation(70_000) * 3).tolist()
    check(folder, [keys], list(range(0, 210_000, 7)))
