"""Batches are handed out one ahead, and empty ones follow the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.read.arrow_stream import BatchReader
from data.read.read_spec import ReadSpec
from ps_cluster.train.batches import LookAhead
from tests.data.orc_files import damage_stripe, numbered, numbered_row

COLUMNS = (Column("id", "int64"), Column("score", "float32"), Column("items", "int64_list"))


def spec_of(path: str, **changes: int) -> ReadSpec:
    return ReadSpec(**{"paths": (path,), "columns": COLUMNS, "batch_rows": 4, "epochs": 2, **changes})


def test_every_batch_comes_once_with_its_rows_and_epoch(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [10])
    with BatchReader(spec_of(path)) as reader:
        batches = list(LookAhead(reader))
    assert [(batch.rows, batch.epoch) for batch in batches] == [(4, 0), (4, 0), (2, 0), (4, 1), (4, 1), (2, 1)]
    ids = np.concatenate([batch.columns["id"].numpy() for batch in batches])
    assert ids.tolist() == [*range(10), *range(10)]
    assert batches[1].columns["items"].to_list() == [numbered_row(i)[2] for i in range(4, 8)]


def test_after_the_last_batch_come_empty_ones_of_the_same_columns(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [5])
    with BatchReader(spec_of(path)) as reader:
        ahead = LookAhead(reader)
        seen = []
        while ahead.has_next:
            last = ahead.take()
            seen.append(last.rows)
        assert seen == [4, 1, 4, 1]
        for _ in range(3):
            empty = ahead.take()
            assert not ahead.has_next
            assert (empty.rows, empty.epoch) == (0, 1)
            spec = reader.dataset.element_spec[0]
            assert empty.columns.keys() == spec.keys() == last.columns.keys()
            for name, column in empty.columns.items():
                assert column.dtype == last.columns[name].dtype
                assert spec[name].is_compatible_with(column)
                assert int(column.shape[0]) == 0
            assert empty.columns["items"].row_splits.dtype == tf.int64
            assert empty.columns["items"].to_list() == []


def test_a_shard_without_rows_has_empty_batches_only(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [1])
    readers = [BatchReader(spec_of(path, num_shards=2, shard=shard)) for shard in range(2)]
    (reader,) = (reader for reader in readers if reader.rows == 0)
    try:
        ahead = LookAhead(reader)
        assert not ahead.has_next
        assert ahead.take().rows == 0
        assert list(ahead) == []
    finally:
        for one in readers:
            one.close()


def test_what_is_wrong_with_the_data_is_raised_in_the_readers_words(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [4, 4, 4])
    damage_stripe(path, 2)
    with BatchReader(spec_of(path)) as reader, pytest.raises(DataError, match=r"a\.orc"):
        list(LookAhead(reader))
