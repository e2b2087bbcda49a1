"""Batches are handed out one ahead, and empty ones follow the last."""

from __future__ import annotations

import queue
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from data.columns import Column
from data.errors import DataError
from data.read.plan import plan
from data.read.read_spec import Position, ReadSpec
from ps_cluster.train.batches import LookAhead, Read
from ps_cluster.train.ledger import Consumed
from tests.data.orc_files import damage_stripe, numbered, numbered_row

COLUMNS = (Column("id", "int64"), Column("score", "float32"), Column("items", "int64_list"))


def spec_of(path: str, **changes: Any) -> ReadSpec:
    return ReadSpec(**{"paths": (path,), "columns": COLUMNS, "batch_rows": 4, "epochs": 2, **changes})


def ahead_of(spec: ReadSpec) -> LookAhead:
    return LookAhead(spec, [Read(spec, plan(spec))])


def test_every_batch_comes_once_with_its_rows_and_epoch(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [10])
    with ahead_of(spec_of(path)) as ahead:
        batches = list(ahead)
    assert [(batch.rows, batch.epoch) for batch in batches] == [(4, 0), (4, 0), (2, 0), (4, 1), (4, 1), (2, 1)]
    ids = np.concatenate([batch.columns["id"].numpy() for batch in batches])
    assert ids.tolist() == [*range(10), *range(10)]
    assert batches[1].columns["items"].to_list() == [numbered_row(i)[2] for i in range(4, 8)]


def test_after_the_last_batch_come_empty_ones_of_the_same_columns(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [5])
    with ahead_of(spec_of(path)) as ahead:
        seen = []
        while ahead.has_next:
            last = ahead.take()
            seen.append(last.rows)
        assert seen == [4, 1, 4, 1]
        for _ in range(3):
            empty = ahead.take()
            assert not ahead.has_next
            assert (empty.rows, empty.epoch) == (0, 1)
            spec = ahead.element_spec
            assert empty.columns.keys() == spec.keys() == last.columns.keys()
            for name, column in empty.columns.items():
                assert column.dtype == last.columns[name].dtype
                assert spec[name].is_compatible_with(column)
                assert int(column.shape[0]) == 0
            assert empty.columns["items"].row_splits.dtype == tf.int64
            assert empty.columns["items"].to_list() == []


def test_a_shard_without_rows_has_empty_batches_only(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [1])
    specs = [spec_of(path, num_shards=2, shard=shard) for shard in range(2)]
    (spec,) = (spec for spec in specs if plan(spec).rows == 0)
    with ahead_of(spec) as ahead:
        assert not ahead.has_next
        assert ahead.take().rows == 0
        assert list(ahead) == []


@pytest.mark.parametrize("reader", ["tfio", "native"])
def test_streams_follow_one_another_and_end_where_they_are_to(tmp_path: Path, reader: str) -> None:
    path = numbered(tmp_path / "a.orc", [10, 13])
    some = {"epochs": 1, "shuffle_rows": 7, "reader": reader, "num_shards": 2}
    specs = [spec_of(path, **some, shard=shard) for shard in range(2)]
    whole = []
    for spec in specs:
        with ahead_of(spec) as ahead:
            whole.append([batch.columns["id"].numpy().tolist() for batch in ahead])
    later = replace(specs[1], start=Position(0, 8))
    reads = [Read(specs[0], plan(specs[0]), Position(0, 4)), Read(later, plan(later))]
    with LookAhead(specs[0], reads) as ahead:
        assert ahead.consumed == Consumed(0, Position())
        ids, places = [], []
        for batch in ahead:
            assert ahead.consumed == batch.consumed
            ids.append(batch.columns["id"].numpy().tolist())
            places.append(batch.consumed)
    assert ids == [whole[0][0], *whole[1][2:]]
    rows = plan(specs[1]).rows
    assert (
        places == [Consumed(0, Position(0, 4)), *(Consumed(1, Position(0, min(n, rows))) for n in (12, 16))][: len(ids)]
    )


@pytest.mark.parametrize("reader", ["tfio", "native"])
def test_without_a_stream_there_are_empty_batches(tmp_path: Path, reader: str) -> None:
    path = numbered(tmp_path / "a.orc", [5])
    with ahead_of(spec_of(path, reader=reader)) as full, LookAhead(spec_of(path, reader=reader), []) as ahead:
        assert not ahead.has_next
        empty = ahead.take()
        assert empty.rows == 0
        assert ahead.element_spec == full.element_spec


def test_what_is_wrong_with_the_data_is_raised_in_the_readers_words(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.orc", [4, 4, 4])
    damage_stripe(path, 2)
    with pytest.raises(DataError, match=r"a\.orc"), ahead_of(spec_of(path)) as ahead:
        list(ahead)


@pytest.mark.parametrize("reader", ["tfio", "native"])
def test_streams_may_be_appended_while_others_are_read_or_when_none_is_left(tmp_path: Path, reader: Any) -> None:
    specs = []
    for number in range(3):
        path = numbered(tmp_path / f"{number}.orc", [6], start=10 * number)
        specs.append(spec_of(path, epochs=1, reader=reader))
    reads = [Read(spec, plan(spec)) for spec in specs]
    found = []
    with LookAhead(replace(specs[0], paths=()), []) as ahead:
        assert not ahead.has_next and ahead.stand.leases == 0
        ahead.append(reads[0])
        ahead.append(reads[1])
        found.append(ahead.take())
        assert ahead.stand == ahead.consumed == Consumed(0, Position(0, 4))
        found.append(ahead.take())
        assert (ahead.consumed, ahead.stand) == (Consumed(0, Position(0, 6)), Consumed(1, Position()))
        ahead.forget_done()
        assert ahead.stand == ahead.consumed == Consumed(0, Position())
        found += [ahead.take(), ahead.take()]
        assert not ahead.has_next and ahead.stand == Consumed(1, Position())
        assert [batch.consumed.leases for batch in found] == [0, 0, 0, 0]
        ahead.forget_done()
        ahead.append(reads[2])
        found += list(ahead)
    ids = np.concatenate([batch.columns["id"].numpy() for batch in found])
    assert ids.tolist() == [10 * number + index for number in range(3) for index in range(6)]


@pytest.mark.parametrize("reader", ["tfio", "native"])
def test_nobody_waits_for_the_end_of_an_iterator(tmp_path: Path, reader: str) -> None:
    path = numbered(tmp_path / "a.orc", [10])
    ended: queue.Queue[threading.Thread] = queue.Queue()
    with ahead_of(spec_of(path, reader=reader)) as ahead:
        ahead.take()
        gone = weakref.ref(ahead._batches, lambda _: ended.put(threading.current_thread()))
    assert ended.get(timeout=240) is not threading.current_thread()
    assert gone() is None
    with pytest.raises(RuntimeError, match="closed"):
        ahead.take()
