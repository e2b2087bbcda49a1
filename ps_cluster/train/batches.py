"""A worker's batches as training consumes them: one read ahead, and empty ones when its own data has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
import tensorflow as tf

from data.errors import DataError
from data.orc import Plan, Position, ReadSpec, open_reader
from data.read.footers import FileSummary
from ps_cluster.errors import RunError
from ps_cluster.train.collective import total
from ps_cluster.train.ledger import Consumed


@dataclass(frozen=True)
class Read:
    """A stream to read, with its plan: all of it, or up to the position `end`, which lies between two batches."""

    spec: ReadSpec
    plan: Plan
    end: Position | None = None


@dataclass(frozen=True)
class Batch:
    """Columns by name (dense `[rows]` or ragged `[rows, None]`), rows in it, and the epoch it belongs to.

    consumed: where training stands when it has trained this batch. counts: of what was read for it, int64
    `[1 + columns]`: rows lost, then nulls that were filled of each column.
    """

    columns: dict
    rows: int
    epoch: int
    consumed: Consumed
    counts: np.ndarray


@dataclass(frozen=True)
class ReadCounts:
    """What was wrong with the rows that were read, over all epochs."""

    rows_lost: int
    nulls_filled: dict[str, int]
    """By column; those without any are left out."""


class LookAhead:
    """Hands out batches of one stream after the other and knows whether another follows, so that workers with less data
    can wait for the others. Close it, or use it in a `with`.

    spec: what the empty batches are like; the streams' columns are the same.
    """

    def __init__(self, spec: ReadSpec, reads: Sequence[Read]):
        self._reads = list(reads)
        # Without a stream one that is over tells what batches look like.
        first = reads[0] if reads else _nothing(spec)
        self._reader = open_reader(first.spec, first.plan)
        self._batches: Iterator = _closed()
        try:
            self.element_spec: dict = self._reader.dataset.element_spec[0]
            self._batches = iter(self._reader.dataset)
            self._empty = _empty_columns(self.element_spec)
            self._columns = [column.name for column in spec.columns]
            self.counts = np.zeros(1 + len(self._columns), np.int64)
            """Of the batches taken so far: rows lost, then nulls that were filled of each column."""
            self._ahead = Consumed(0, first.spec.start)
            self.consumed = self._ahead
            """Of the streams, by the batches taken so far."""
            self._epoch = first.spec.start.epoch
            self._next = self._read()
        except BaseException:
            self.close()
            raise

    @property
    def has_next(self) -> bool:
        return self._next is not None

    @property
    def stand(self) -> Consumed:
        """Of the streams, by the batches taken so far; a stream whose last batch was taken is done."""
        if self._next is None or self._ahead.leases == self.consumed.leases:
            return self._ahead if self._next is None else self.consumed
        return Consumed(self._ahead.leases, self._reads[self._ahead.leases].spec.start)

    def append(self, read: Read) -> None:
        """Another stream behind the others."""
        self._reads.append(read)
        if self._next is None:
            self._open(len(self._reads) - 1)
            self._next = self._read()

    def forget_done(self) -> None:
        """Leaves out the streams that are done (`stand`): the first that is not becomes number 0."""
        stand = self.stand
        del self._reads[: stand.leases]
        self.consumed = Consumed(0, stand.position)
        self._ahead = replace(self._ahead, leases=self._ahead.leases - stand.leases)
        if self._next is not None:
            self._next = replace(self._next, consumed=self._ahead)

    def take(self) -> Batch:
        """The next batch; an empty one after the last."""
        batch = self._next
        if batch is None:
            return Batch(self._empty, 0, self._epoch, self.consumed, np.zeros_like(self.counts))
        self._epoch, self.consumed = batch.epoch, batch.consumed
        self.counts += batch.counts
        self._next = self._read()
        return batch

    def counts_of_all(self) -> ReadCounts:
        """What the readers of all workers have counted; every worker calls it."""
        return self.named(total(self.counts))

    def counts_here(self) -> ReadCounts:
        """What this worker's reader has counted so far; on worker 0 with what was counted before a resume."""
        return self.named(self.counts)

    def named(self, counts: np.ndarray) -> ReadCounts:
        """Sums of `counts` as what they are."""
        lost, *nulls = counts.tolist()
        return ReadCounts(lost, {name: count for name, count in zip(self._columns, nulls) if count})

    def close(self) -> None:
        """Ends the reading; may be called again."""
        self._reader.close()
        self._let_go()

    def __enter__(self) -> LookAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Batch]:
        while self.has_next:
            yield self.take()

    def _let_go(self) -> None:
        """Gives up the iterator, in another thread: its end waits for the thread by which tf.data tunes itself. That
        sleeps up to a minute between two looks, and sometimes misses the word to end (TensorFlow 2.16; two minutes were
        seen), while the other workers wait, or the grace period of a drained one runs out."""
        held, self._batches = [self._batches], _closed()
        threading.Thread(target=held.clear, name="end of an iterator", daemon=True).start()

    def _read(self) -> Batch | None:
        while True:
            batch = self._read_here()
            if batch is not None:
                return batch
            number = self._ahead.leases + 1
            if number >= len(self._reads):
                if self._reads:
                    self._ahead = Consumed(len(self._reads), Position())
                return None
            self._open(number)

    def _open(self, number: int) -> None:
        self.close()
        read = self._reads[number]
        self._reader = open_reader(read.spec, read.plan)
        self._batches = iter(self._reader.dataset)
        self._ahead = Consumed(number, read.spec.start)

    def _read_here(self) -> Batch | None:
        """The next batch of the stream that is being read."""
        number, position = self._ahead.leases, self._ahead.position
        end = self._reads[number].end if number < len(self._reads) else None
        if end is not None and position >= end:
            return None
        found = self._element()
        if found is None:
            return None
        columns, (_, rows, epoch, *counts) = found
        position = Position(epoch, (position.row if epoch == position.epoch else 0) + rows)
        if end is not None and position > end:
            raise RunError(f"{self._reader.spec.paths[0]}: expected a batch that ends at {end}, found {position}")
        self._ahead = Consumed(number, position)
        return Batch(columns, rows, epoch, self._ahead, np.array(counts, np.int64))

    def _element(self) -> tuple[dict, list[int]] | None:
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
        return columns, info.numpy().tolist()


def _closed() -> Iterator:
    raise RuntimeError("the stream of batches was closed")
    yield


def _nothing(spec: ReadSpec) -> Read:
    over = replace(spec, start=Position(spec.epochs, 0))
    plan = Plan((), None, 0, 0, True, (), FileSummary(0, 0, 0, 0), {}, None)
    return Read(over, plan)


def _empty_columns(spec: dict) -> dict:
    empty = {}
    for name, column in spec.items():
        if isinstance(column, tf.RaggedTensorSpec):
            values = tf.zeros([0], column.dtype)
            empty[name] = tf.RaggedTensor.from_row_splits(values, tf.zeros([1], tf.int64), validate=False)
        else:
            empty[name] = tf.zeros([0], column.dtype)
    return empty
