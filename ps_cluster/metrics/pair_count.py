"""Pairs of a positive and a negative row that are in the right order, counted exactly over all workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ps_cluster.metrics.score_runs import Run, ScoreRuns

AllGather = Callable[[np.ndarray], np.ndarray]
"""Concatenates the 1-D arrays of all workers in rank order; lengths may differ, dtypes do not. Collective."""

_BINS = 2**16  # values of the upper half of a key, and of the lower
_PIECE = 2**13  # counts exchanged at once, so that what is gathered stays small with many workers


class _Range(NamedTuple):
    first_bin: int
    last_bin: int
    positives: int
    negatives: int


class _Counts(NamedTuple):
    positives: np.ndarray
    negatives: np.ndarray


def ordered_pairs(runs: ScoreRuns, positives: int, negatives: int, allgather: AllGather, gather_rows: int) -> int:
    """Twice the number of (positive, negative) pairs with the positive scored higher, ties counting one half.

    `positives` and `negatives` are the numbers of rows of all workers together. Every worker gets the same
    answer and makes the same calls of `allgather` whatever its own rows are, since which calls are made
    follows from sums over all workers. Memory: about 40 bytes x max(`gather_rows`, 2**16).

    The keys are cut into ranges of at most `gather_rows` rows (of all workers together). A range is gathered
    and counted by binary search. Where rows crowd so much that a single upper half of a key has more, its
    lower halves are counted instead: then only 2**16 sums travel, however many rows there are.
    """
    if positives + negatives <= gather_rows:
        ranges: Iterable[_Range] = [_Range(0, _BINS - 1, positives, negatives)]
    else:
        ranges = _cut(_sum(_histogram(runs.runs(), _upper), allgather), gather_rows)
    twice_pairs = negatives_below = 0
    for part in ranges:
        twice_pairs += 2 * negatives_below * part.positives
        if part.positives and part.negatives:
            crowded = part.positives + part.negatives > gather_rows
            twice_pairs += (_crowded if crowded else _gathered)(runs, part, allgather)
        negatives_below += part.negatives
    return twice_pairs


def _upper(keys: np.ndarray) -> np.ndarray:
    return (keys >> 16) + _BINS // 2


def _lower(keys: np.ndarray) -> np.ndarray:
    return keys & (_BINS - 1)


def _histogram(runs: Iterable[Run], half: Callable[[np.ndarray], np.ndarray]) -> _Counts:
    counts = _Counts(np.zeros(_BINS, np.int64), np.zeros(_BINS, np.int64))
    step = 2**18  # bincount widens its input
    for run in runs:
        for total, keys in zip(counts, run):
            for start in range(0, len(keys), step):
                total += np.bincount(half(keys[start : start + step]), minlength=_BINS)
    return counts


def _sum(counts: _Counts, allgather: AllGather) -> _Counts:
    flat = np.concatenate(counts)
    for start in range(0, len(flat), _PIECE):
        piece = slice(start, start + _PIECE)
        flat[piece] = allgather(flat[piece].copy()).reshape(-1, len(flat[piece])).sum(axis=0)
    return _Counts(flat[:_BINS], flat[_BINS:])


def _cut(counts: _Counts, gather_rows: int) -> Iterator[_Range]:
    """Ranges of neighbouring bins with at most `gather_rows` rows; a bin with more is a range of its own."""
    first, positives, negatives = 0, 0, 0
    for number, (plus, minus) in enumerate(zip(counts.positives.tolist(), counts.negatives.tolist())):
        if positives + negatives and positives + negatives + plus + minus > gather_rows:
            yield _Range(first, number - 1, positives, negatives)
            first, positives, negatives = number, 0, 0
        positives += plus
        negatives += minus
    yield _Range(first, _BINS - 1, positives, negatives)


def _rows_of(runs: ScoreRuns, part: _Range) -> Iterator[Run]:
    lowest = (part.first_bin - _BINS // 2) * _BINS
    highest = (part.last_bin + 1 - _BINS // 2) * _BINS - 1
    return runs.within(lowest, highest)


def _gathered(runs: ScoreRuns, part: _Range, allgather: AllGather) -> int:
    positives, negatives = (np.sort(allgather(np.concatenate(arrays))) for arrays in zip(*_rows_of(runs, part)))
    below = negatives.searchsorted(positives, "left")
    not_above = negatives.searchsorted(positives, "right")
    return int(below.sum()) + int(not_above.sum())


def _crowded(runs: ScoreRuns, part: _Range, allgather: AllGather) -> int:
    counts = _sum(_histogram(_rows_of(runs, part), _lower), allgather)
    twice_pairs = negatives_below = 0
    # Python's integers: the products pass 2**63 from three billion rows on.
    for positives, negatives in zip(counts.positives.tolist(), counts.negatives.tolist()):
        twice_pairs += positives * (2 * negatives_below + negatives)
        negatives_below += negatives
    return twice_pairs
