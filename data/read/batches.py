"""From planned parts of stripes to record batches of exact size, in the order of `data.read.order`."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from data.errors import DataError
from data.read.decoding import Run, Watcher, decoded
from data.read.gather import Gatherer
from data.read.order import epoch_order, epoch_pieces, file_pieces, window_order
from data.read.part_reader import PartRows, output_schema
from data.read.plan import Plan
from data.read.read_spec import ReadSpec
from data.read.stripes import Part


@dataclass(frozen=True)
class Shard:
    """What of a plan is needed to read it."""

    spec: ReadSpec
    parts: tuple[Part, ...]
    kept: np.ndarray | None
    """Exact number of rows that each part gives, int64 `[parts]`; None: not known."""

    @staticmethod
    def of(spec: ReadSpec, plan: Plan) -> Shard:
        """What `plan` says."""
        return Shard(spec, plan.parts, plan.part_rows if plan.exact else None)


@dataclass(frozen=True)
class Batches:
    """Batches of one epoch that are ready at the same time, and what their reading has cost."""

    epoch: int
    rows: pa.RecordBatch
    """Of one batch after the other; each has the same number of rows."""
    counts: np.ndarray
    """int64 `[batches, 1 + columns]`: rows lost, then nulls that were filled of each declared column, of all that was
    read since the batch before. A resumed stream starts counting with the window that it starts in."""

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, some: slice) -> Batches:
        first, end, _ = some.indices(len(self))
        size = self.batch_rows
        return Batches(self.epoch, self.rows.slice(first * size, (end - first) * size), self.counts[some])

    @property
    def batch_rows(self) -> int:
        """Rows of each."""
        return self.rows.num_rows // len(self)


class _Window:
    """Rows that are handed out in an order of their own, a few at a time: moving a window of lists at once would take
    its memory a second time and let the trainer wait."""

    def __init__(self, rows: pa.RecordBatch, counts: np.ndarray, order: np.ndarray | None, used: int):
        self._rows = rows if order is None else Gatherer(rows)
        self._count = rows.num_rows
        self.counts = counts
        self._order = order
        self._used = used

    @property
    def left(self) -> int:
        return self._count - self._used

    def take(self, rows: int) -> pa.RecordBatch:
        start, self._used = self._used, self._used + rows
        if isinstance(self._rows, pa.RecordBatch):
            return self._rows.slice(start, rows)
        assert self._order is not None
        return self._rows.take(self._order[start : start + rows])


def batches(shard: Shard, threads: int, watcher: Watcher, most_rows: int = 1) -> Generator[Batches, None, None]:
    """The batches of all epochs from `spec.start` on; every row of `shard` that is kept comes once an epoch. Several
    come together while they have at most `most_rows` rows.

    All batches have `spec.batch_rows` rows but the last of an epoch, which may have fewer, or is left out with
    `spec.drop_remainder`. `threads` decode; the batches do not depend on how many.

    Raises `DataError` where `data.read.part_reader` does, and when `spec.start` lies behind the end of its epoch.
    """
    spec = shard.spec
    epochs = [_Epoch(shard, number) for number in range(spec.start.epoch, spec.epochs)]
    runs = itertools.chain.from_iterable(epoch.runs() for epoch in epochs)
    parts = decoded(runs, spec, threads, watcher)
    pending = np.zeros(1 + len(spec.columns), np.int64)
    most = max(most_rows // spec.batch_rows, 1)
    try:
        for epoch in epochs:
            windows = epoch.windows(parts)
            window = _next_window(windows, pending)
            cuts: list[pa.RecordBatch] = []
            missing = spec.batch_rows
            while window is not None:
                # The last of a window is counted together with the next window.
                whole = 0 if cuts else min((window.left - 1) // spec.batch_rows, most)
                if whole:
                    counts = np.zeros((whole, len(pending)), np.int64)
                    counts[0], pending[:] = pending, 0
                    yield Batches(epoch.number, window.take(whole * spec.batch_rows), counts)
                    continue
                rows = min(missing, window.left)
                cuts.append(window.take(rows))
                missing -= rows
                if not window.left:
                    window = None  # its memory is needed for the next one
                    window = _next_window(windows, pending)
                if not missing or (window is None and not spec.drop_remainder):
                    yield Batches(epoch.number, _joined(cuts), pending[np.newaxis].copy())
                    pending[:] = 0
                    cuts, missing = [], spec.batch_rows
    finally:
        parts.close()


def _next_window(windows: Iterator[_Window], pending: np.ndarray) -> _Window | None:
    """The next window with rows left; the counts of all that are read for it are added to `pending`."""
    for window in windows:
        pending += window.counts
        if window.left:
            return window
    return None


def _joined(cuts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return cuts[0] if len(cuts) == 1 else pa.concat_batches(cuts)


class _Epoch:
    """One pass over a shard: its pieces from the start on, and what of them had been delivered before."""

    def __init__(self, shard: Shard, number: int):
        self._shard = shard
        self.number = number
        spec = shard.spec
        self._row = spec.start.row if number == spec.start.epoch else 0
        self._first_window = self._row // spec.shuffle_rows if spec.shuffled else 0
        self._target = self._first_window * spec.shuffle_rows if spec.shuffled else self._row

    def runs(self) -> Iterator[Run]:
        """What to decode, in the order of its first use."""
        parts, kept = self._shard.parts, self._shard.kept
        for numbers in self._numbers_of_runs(self._pieces()[0]):
            run = [parts[number] for number in numbers]
            yield Run(run, sum(part.rows for part in run) if kept is None else int(kept[numbers].sum()))

    def windows(self, parts: Iterator[list[PartRows]]) -> Iterator[_Window]:
        """The windows from the one on that the start lies in; `parts` gives the parts of `runs`."""
        spec = self._shard.spec
        pieces, offset = self._pieces()
        found = self._found(pieces, parts)
        if not spec.shuffled:
            return self._pieces_as_windows(found, self._target - offset)
        return self._shuffled_windows(found, self._target - offset)

    def _pieces(self) -> tuple[np.ndarray, int]:
        """The pieces to read (as `epoch_pieces`), and the number of the epoch's rows before them."""
        spec, rows = self._shard.spec, [part.rows for part in self._shard.parts]
        if spec.shuffled:
            pieces = epoch_pieces(rows, spec.seed, self.number, spec.interleave_stripes)
        else:
            pieces = file_pieces(rows)
        if not self._target or self._shard.kept is None or not len(pieces):
            return pieces, 0
        firsts, starts = self._units(pieces)
        unit = int(np.searchsorted(starts, self._target))
        if unit == len(starts) or starts[unit] != self._target:
            unit -= 1
        return pieces[firsts[unit] :], int(starts[unit])

    def _numbers_of_runs(self, pieces: np.ndarray) -> Iterator[list[int]]:
        """Numbers of the parts of `pieces`, in the order of their first use; what shares a stripe comes together."""
        numbers, first = np.unique(pieces[:, 0], return_index=True)
        in_order = map(int, numbers[np.argsort(first)])
        for _, run in itertools.groupby(in_order, key=lambda number: self._shard.parts[number].stripe):
            yield list(run)

    def _units(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Runs of pieces that are known to give how many rows: the first piece of each, and the number of the epoch's
        rows before it."""
        spec, kept = self._shard.spec, self._shard.kept
        assert kept is not None
        if spec.where is None and spec.sampling is None:
            firsts, rows = np.arange(len(pieces)), pieces[:, 2]
        elif not spec.shuffled:
            firsts, rows = np.arange(len(pieces)), kept[pieces[:, 0]]
        else:  # how the kept rows of a part are spread over its pieces is not known, but a group has all of them
            order = epoch_order(len(kept), spec.seed, self.number)
            group = np.empty(len(kept), np.int64)
            group[order] = np.arange(len(kept)) // spec.interleave_stripes
            groups, firsts = np.unique(group[pieces[:, 0]], return_index=True)
            rows = np.zeros(len(groups), np.int64)
            np.add.at(rows, group, kept)
        return firsts, np.cumsum(rows) - rows

    def _found(
        self, pieces: np.ndarray, parts: Iterator[list[PartRows]]
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """The kept rows and the counts of each piece. A part is held from its first piece to its last."""
        columns = len(self._shard.spec.columns)
        last = np.zeros(len(self._shard.parts), np.int64)
        last[pieces[:, 0]] = np.arange(len(pieces))
        runs = self._numbers_of_runs(pieces)
        held: dict[int, PartRows] = {}
        for position in range(len(pieces)):
            number, start, rows = pieces[position].tolist()
            if number not in held:
                held.update(zip(next(runs), next(parts)))
            found = held.pop(number) if last[number] == position else held[number]
            piece = found.piece(start, rows), found.counts(start, rows, columns)
            del found
            yield piece
            del piece

    def _pieces_as_windows(self, pieces: Iterator[tuple[pa.RecordBatch, np.ndarray]], skip: int) -> Iterator[_Window]:
        for rows, counts in pieces:
            if skip and rows.num_rows <= skip:
                skip -= rows.num_rows
                continue
            yield _Window(rows, counts, None, skip)
            del rows
            skip = 0
        self._check_all_skipped(skip)

    def _shuffled_windows(self, pieces: Iterator[tuple[pa.RecordBatch, np.ndarray]], skip: int) -> Iterator[_Window]:
        size = self._shard.spec.shuffle_rows
        number, used = self._first_window, self._row - self._target
        waiting: list[pa.RecordBatch] = []
        waiting_rows = 0
        pending = np.zeros(1 + len(self._shard.spec.columns), np.int64)

        def window(rows: list[pa.RecordBatch]) -> _Window:
            order = window_order(sum(one.num_rows for one in rows), self._shard.spec.seed, self.number, number)
            return _Window(_joined(rows), pending.copy(), order, used)

        for rows, counts in pieces:
            if skip:  # belongs to a window before the first one
                if rows.num_rows <= skip:
                    skip -= rows.num_rows
                    continue
                rows, skip = rows.slice(skip), 0
            else:
                pending += counts
            while waiting_rows + rows.num_rows >= size:
                cut = size - waiting_rows
                waiting.append(rows.slice(0, cut))
                rows = rows.slice(cut)
                full, waiting, waiting_rows = window(waiting), [], 0
                pending[:] = 0
                number, used = number + 1, 0
                yield full
                del full
            if rows.num_rows:
                waiting.append(rows)
                waiting_rows += rows.num_rows
        self._check_all_skipped(skip or max(used - waiting_rows, 0))
        if waiting or pending.any():
            yield window(waiting or [pa.RecordBatch.from_pylist([], output_schema(self._shard.spec))])

    def _check_all_skipped(self, rows_missing: int) -> None:
        if rows_missing:
            raise DataError(
                f"{self._shard.parts[-1].stripe.path}: expected at least {self._row} rows in epoch {self.number}, to "
                f"go on behind them, found {self._row - rows_missing}; the files changed"
            )
