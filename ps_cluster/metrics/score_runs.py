"""Scores of one worker as sorted runs: the newest in memory, the older ones in a file that has no name."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np

from ps_cluster.errors import RunError

_KEY = np.dtype(np.int32)


class Run(NamedTuple):
    """Keys of the rows with label 1 and of those with label 0, int32, each ascending."""

    positives: np.ndarray
    negatives: np.ndarray


class ScoreRuns:
    """Takes (key, label) pairs in any order; gives them back as runs, whole or cut to a range of keys.

    At most `buffer_rows` rows are held in memory (5 bytes each). A full buffer is sorted and appended to a
    temporary file in `folder` (4 bytes a row) that is deleted as soon as it is open: the disk gets its space
    back however the process ends. The folder may be that of others, too; who has made it removes it.
    """

    def __init__(self, folder: str, buffer_rows: int):
        if buffer_rows < 1:
            raise ValueError(f"buffer_rows: expected at least 1, found {buffer_rows}")
        self._folder = folder
        self._keys = np.empty(buffer_rows, _KEY)
        self._labels = np.empty(buffer_rows, bool)
        self._filled = 0
        self._file: IO[bytes] | None = None
        self._made = False
        self._lengths: list[tuple[int, int]] = []

    @property
    def spilled_rows(self) -> int:
        """Rows that lie in the file."""
        return sum(positives + negatives for positives, negatives in self._lengths)

    def append(self, keys: np.ndarray, labels: np.ndarray) -> None:
        """Add int32 keys `[n]` with bool labels `[n]`; RunError when the disk takes no more."""
        start = 0
        while start < len(keys):
            if self._filled == len(self._keys):
                self._spill()
            stop = min(len(keys), start + len(self._keys) - self._filled)
            end = self._filled + stop - start
            self._keys[self._filled : end] = keys[start:stop]
            self._labels[self._filled : end] = labels[start:stop]
            self._filled, start = end, stop

    def runs(self) -> Iterator[Run]:
        """Every row, run by run; runs of the file are mapped, not read."""
        yield from self._spilled_runs()
        yield self._buffered_run()

    def within(self, lowest: int, highest: int) -> Iterator[Run]:
        """The part of each run with keys from `lowest` to `highest`, both included."""
        # As int32: with a wider type searchsorted would first widen a copy of the whole run.
        low, high = _KEY.type(lowest), _KEY.type(highest)
        for run in self.runs():
            # Copies: a slice would keep the run's mapping, and with it every page the search has touched.
            yield Run(*(keys[keys.searchsorted(low) : keys.searchsorted(high, "right")].copy() for keys in run))

    def close(self) -> None:
        """Give back memory and disk; may be called again."""
        if self._file is not None:
            self._file.close()
            if self._made:
                with contextlib.suppress(OSError):  # it holds something else
                    os.rmdir(self._folder)
        self._file = None
        self._lengths = []
        self._filled = 0

    def _buffered_run(self) -> Run:
        keys, labels = self._keys[: self._filled], self._labels[: self._filled]
        return Run(np.sort(keys[labels]), np.sort(keys[~labels]))

    def _spilled_runs(self) -> Iterator[Run]:
        if self._file is None:
            return
        offset = 0
        for positives, negatives in self._lengths:
            # One mapping a run, dropped with the run: what was touched does not stay resident.
            rows = positives + negatives
            mapped = np.memmap(self._file, _KEY, "r", offset, (rows,)).view(np.ndarray)
            yield Run(mapped[:positives], mapped[positives:])
            offset += rows * _KEY.itemsize

    def _spill(self) -> None:
        run = self._buffered_run()
        try:
            if self._file is None:
                self._made = not os.path.isdir(self._folder)
                os.makedirs(self._folder, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115, lives as long as self
            for keys in run:
                self._file.write(keys.data)
            self._file.flush()
        except OSError as error:
            raise RunError(f"{self._folder}: cannot keep the scores of the evaluation: {error.strerror}") from error
        self._lengths.append((len(run.positives), len(run.negatives)))
        self._filled = 0
