"""Tables larger than a chunk come in the order of hashes, each row once, whole or in shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ops.lookup_concat import mix, unmix
from ps_cluster.export.ordered_rows import CHUNK_BYTES, OrderedRows, joined, ordered, shard_of
from ps_cluster.export.row_merge import by_range
from ps_cluster.export.row_types import as_float, stored
from tests.ps_cluster.export.large_table import ROWS, UNKNOWN, WIDTH, keys_of, large_table, rows_for


def check(rows: OrderedRows, keys: np.ndarray, row_type: str) -> None:
    chunks = list(rows.chunks())
    assert len(chunks) > 1 or len(keys) < ROWS
    whole = joined(chunks)
    assert len(whole) == rows.num_rows == len(keys)
    np.testing.assert_array_equal(np.sort(whole.keys), np.sort(keys))
    np.testing.assert_array_equal(whole.hashes, mix(whole.keys))
    assert (np.diff(whole.hashes.astype(object)) > 0).all()
    want, scales = stored(rows_for(whole.keys), row_type, "table")  # type: ignore[arg-type]
    np.testing.assert_array_equal(whole.values, want)
    if scales is not None:
        np.testing.assert_array_equal(whole.scales, scales)


def test_a_large_table_is_sorted_on_the_disk(tmp_path: Path) -> None:
    assert ROWS * WIDTH * 4 > CHUNK_BYTES
    (rows,) = ordered(large_table(), "float32", str(tmp_path), "table")
    check(rows, keys_of(), "float32")
    assert (as_float(rows.unknown.values, rows.unknown.scales) == UNKNOWN).all()
    assert sum(1 for _ in tmp_path.iterdir()) > 1


def test_shards_have_each_row_once(tmp_path: Path) -> None:
    keys = keys_of()
    owners = shard_of(mix(keys), 3)
    assert (abs(np.bincount(owners) / ROWS - 1 / 3) < 0.01).all()
    for number, rows in enumerate(ordered(large_table(), "int8", str(tmp_path), "table", shards=3)):
        check(rows, keys[owners == number], "int8")


@pytest.mark.parametrize("bits", [0, 1, 5])
def test_ranges_of_hashes_meet_at_their_limits(tmp_path: Path, bits: int) -> None:
    (rows,) = ordered(large_table(), "float16", str(tmp_path), "table")
    ranges = list(by_range(rows, bits))
    assert len(ranges) == 1 << bits
    for number, one in enumerate(ranges):
        assert ((one.hashes >> np.uint64(1)) >> np.uint64(63 - bits) == number).all()
    np.testing.assert_array_equal(joined(ranges).keys, joined(list(rows.chunks())).keys)


def test_a_key_can_be_told_from_its_hash() -> None:
    keys = np.append(np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 1000), [0, -1, 2**63 - 1, -(2**63)])
    np.testing.assert_array_equal(unmix(mix(keys)), keys)
