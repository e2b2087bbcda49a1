"""A worker's batches as training consumes them: one read ahead, and empty ones when its own data has ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from data.errors import DataError
from data.orc import Reader
from ps_cluster.errors import RunError
from ps_cluster.train.collective import total


@dataclass(frozen=True)
class Batch:
    """Columns by name (dense `[rows]` or ragged `[rows, None]`), rows in it, and the epoch it belongs to."""

    columns: dict
    rows: int
    epoch: int


@dataclass(frozen=True)
class ReadCounts:
    """What was wrong with the rows that were read, over all epochs."""

    rows_lost: int
    nulls_filled: dict[str, int]
    """By column; those without any are left out."""


class LookAhead:
    """Hands out batches and knows whether another follows, so that workers with less data can wait for the others."""

    def __init__(self, reader: Reader):
        self._reader = reader
        self._batches = iter(reader.dataset)
        self._empty = _empty_columns(reader.dataset.element_spec[0])
        self._epoch = 0
        self._columns = [column.name for column in reader.spec.columns]
        self.counts = np.zeros(1 + len(self._columns), np.int64)
        """Of the batches read so far: rows lost, then nulls that were filled of each column."""
        self._next = self._read()

    @property
    def has_next(self) -> bool:
        return self._next is not None

    def take(self) -> Batch:
        """The next batch; an empty one after the last."""
        batch = self._next
        if batch is None:
            return Batch(self._empty, 0, self._epoch)
        self._epoch = batch.epoch
        self._next = self._read()
        return batch

    def counts_of_all(self) -> ReadCounts:
        """What the readers of all workers have counted; every worker calls it."""
        lost, *nulls = total(self.counts).tolist()
        return ReadCounts(lost, {name: count for name, count in zip(self._columns, nulls) if count})

    def __iter__(self) -> Iterator[Batch]:
        while self.has_next:
            yield self.take()

    def _read(self) -> Batch | None:
        try:
            columns, info = next(self._batches)
        except StopIteration:
            return None
        except tf.errors.OpError as error:
            cause = self._reader.cause(error)
            if cause is error:
                raise
            if isinstance(cause, DataError):
                raise cause from error
            raise RunError(str(cause)) from error
        _, rows, epoch, *_ = info.numpy()
        self.counts += info.numpy()[3:]
        return Batch(columns, int(rows), int(epoch))


def _empty_columns(spec: dict) -> dict:
    empty = {}
    for name, column in spec.items():
        if isinstance(column, tf.RaggedTensorSpec):
            values = tf.zeros([0], column.dtype)
            empty[name] = tf.RaggedTensor.from_row_splits(values, tf.zeros([1], tf.int64), validate=False)
        else:
            empty[name] = tf.zeros([0], column.dtype)
    return empty
