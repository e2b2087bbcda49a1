"""From planned parts of stripes to record batches of exact size."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.orc as orc

from data.columns import Column, canonical
from data.errors import DataError
from data.stripes import Part, epoch_order, window_order

_T = TypeVar("_T")


@dataclass(frozen=True)
class Batches:
    """How parts become batches: `epochs` passes of batches of `batch_rows` rows.

    `shuffle_rows` is the size of the window that rows are shuffled in (0: rows keep their order); about three
    windows are in memory at a time. The order is a function of (seed, epoch) and of the rows, not of
    `batch_rows`.
    """

    batch_rows: int
    epochs: int
    shuffle_rows: int
    seed: int


@dataclass(frozen=True)
class _Window:
    epoch: int
    number: int
    rows: pa.RecordBatch


class PartReader:
    """Decodes parts; keeps the file it read last open."""

    def __init__(self, columns: Sequence[Column]):
        self._columns = tuple(columns)
        self._open: tuple[str, orc.ORCFile] | None = None

    def read(self, part: Part) -> pa.RecordBatch:
        """The rows of `part`: one canonical column (`data.columns`) for each declared one, in the order
        declared.

        Raises `DataError` for a stripe that cannot be decoded and for a wrong value.
        """
        stripe = part.stripe
        try:
            if self._open is None or self._open[0] != stripe.path:
                self._open = (stripe.path, orc.ORCFile(stripe.path))
            decoded = self._open[1].read_stripe(stripe.index, columns=[c.name for c in self._columns])
        except (OSError, pa.ArrowException) as error:
            last_row = stripe.first_row + stripe.rows - 1
            raise DataError(
                f"{stripe.path}: stripe {stripe.index} (rows {stripe.first_row} to {last_row}, "
                f"counted from 0): expected a readable stripe, found: {error}"
            ) from error
        if decoded.num_rows != stripe.rows:
            raise DataError(
                f"{stripe.path}: stripe {stripe.index}: expected {stripe.rows} rows, "
                f"found {decoded.num_rows}; the file changed after it was checked"
            )
        rows = decoded.slice(part.start, part.rows)
        first_row = stripe.first_row + part.start
        # By name: the decoder gives columns in the order of the file.
        arrays = [canonical(rows.column(c.name), c, stripe.path, first_row) for c in self._columns]
        return pa.RecordBatch.from_arrays(arrays, [c.name for c in self._columns])


def batches(
    read: Callable[[Part], pa.RecordBatch], parts: Sequence[Part], how: Batches
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(epoch, record batch) in order: every row of `parts` once an epoch, all batches of `how.batch_rows`
    rows but the last of an epoch, which may be smaller."""
    windows = ahead(_windows(read, parts, how))
    for epoch, group in itertools.groupby(windows, key=lambda window: window.epoch):
        for batch in rechunk(_pieces(group, how), how.batch_rows):
            yield epoch, batch


def rechunk(pieces: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of `pieces`, in order, as record batches of `rows` rows; only the last may have fewer.

    What lies inside one piece is not copied.
    """
    kept: list[pa.RecordBatch] = []
    kept_rows = 0
    for piece in pieces:
        position = 0
        while piece.num_rows - position >= rows - kept_rows:
            kept.append(piece.slice(position, rows - kept_rows))
            position += rows - kept_rows
            yield _joined(kept)
            kept, kept_rows = [], 0
        if position < piece.num_rows:
            kept.append(piece.slice(position))
            kept_rows += piece.num_rows - position
    if kept:
        yield _joined(kept)


def ahead(items: Iterator[_T]) -> Iterator[_T]:
    """`items`, the next one computed in a thread while the present one is used; never more than one ahead."""
    ready: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
    wanted = threading.Semaphore(0)
    stopped = threading.Event()

    def work() -> None:
        try:
            while True:
                wanted.acquire()
                if stopped.is_set():
                    return
                try:
                    item = next(items)
                except StopIteration:
                    ready.put(("end", None))
                    return
                ready.put(("item", item))
                del item  # else it would live on here, beside the next one being made
        except BaseException as error:
            ready.put(("error", error))

    threading.Thread(target=work, name="read-ahead", daemon=True).start()
    try:
        wanted.release()
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise item  # type: ignore[misc]
            wanted.release()
            yield item  # type: ignore[misc]
            del item
    finally:
        stopped.set()
        wanted.release()


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


def _windows(read: Callable[[Part], pa.RecordBatch], parts: Sequence[Part], how: Batches) -> Iterator[_Window]:
    """The rows of all epochs: windows of `shuffle_rows` rows, not yet permuted, or else parts as they are."""
    for epoch in range(how.epochs):
        if how.shuffle_rows:
            shuffled = (read(part) for part in epoch_order(parts, how.seed, epoch))
            pieces = rechunk(shuffled, how.shuffle_rows)
        else:
            pieces = (read(part) for part in parts)
        for number, rows in enumerate(pieces):
            yield _Window(epoch, number, rows)


def _pieces(windows: Iterable[_Window], how: Batches) -> Iterator[pa.RecordBatch]:
    """The windows of one epoch, permuted. Rows are gathered a batch at a time: moving a window of lists at
    once would take its memory a second time and let the trainer wait."""
    for window in windows:
        if not how.shuffle_rows:
            yield window.rows
            continue
        order = window_order(window.rows.num_rows, how.seed, window.epoch, window.number)
        for start in range(0, len(order), how.batch_rows):
            yield window.rows.take(pa.array(order[start : start + how.batch_rows]))
