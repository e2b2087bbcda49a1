"""Where sorted runs are cut so that the parts before the cuts are the first so many rows of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SAMPLE_STEP = 1024


@dataclass(frozen=True)
class Ranks:
    """Runs in order of their sources, each sorted by its keys; of equal keys those of earlier runs come first.

    `keys[k]`: bytes `[rows of run k]`, usually mapped from a file; empty-width keys are all equal. `samples`: every
    `SAMPLE_STEP`th key of every run, sorted.
    """

    keys: Sequence[np.ndarray]
    samples: np.ndarray

    @property
    def rows(self) -> int:
        """Rows of all runs."""
        return sum(map(len, self.keys))

    def cut(self, rank: int) -> np.ndarray:
        """int64 `[runs]`: how many rows of each run are among the first `rank` rows of all.

        Only keys between two neighbours among `samples` are read: at most `SAMPLE_STEP` of each run.
        """
        low = np.zeros(len(self.keys), np.int64)
        high = np.array([len(keys) for keys in self.keys], np.int64)
        if rank >= high.sum():
            return high
        first, last = 0, len(self.samples)  # the wanted sample is before `last`; samples before `first` are too small
        while first < last:
            middle = (first + last) // 2
            below = self._count(self.samples[middle : middle + 1], "left")
            if below.sum() <= rank:
                low, first = below, middle + 1
            else:
                high, last = below, middle
        if first:
            key = self.samples[first - 1 : first]
            up_to = self._count(key, "right")
            if rank < up_to.sum():
                return _first_of(low, up_to, rank)
            low = up_to
        window = np.concatenate([keys[a:b] for keys, a, b in zip(self.keys, low, high)])
        runs = np.repeat(np.arange(len(self.keys)), high - low)
        chosen = runs[np.argsort(window, kind="stable")[: rank - low.sum()]]
        return low + np.bincount(chosen, minlength=len(self.keys))

    def _count(self, key: np.ndarray, side: str) -> np.ndarray:
        return np.array([np.searchsorted(keys, key, side)[0] for keys in self.keys], np.int64)  # type: ignore[call-overload]


def _first_of(low: np.ndarray, high: np.ndarray, rank: int) -> np.ndarray:
    """Cuts between `low` and `high`, where all keys are equal: earlier runs first."""
    before = low.sum() + np.concatenate([[0], np.cumsum(high - low)[:-1]])
    return low + np.clip(rank - before, 0, high - low)


def in_order(lengths: np.ndarray, rank: int) -> np.ndarray:
    """The cut where rows keep the runs' order."""
    return _first_of(np.zeros(len(lengths), np.int64), lengths, rank)
