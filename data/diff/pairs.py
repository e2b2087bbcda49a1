"""Rows of two sets that belong together: equal in key and, if there are any, equal in value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Pairs(NamedTuple):
    """Positions, int64: row `a[i]` of one set belongs to row `b[i]` of the other."""

    a: np.ndarray
    b: np.ndarray
    left_a: np.ndarray
    """Positions of the rows without partner, ascending."""
    left_b: np.ndarray


def pairs(codes_a: tuple[np.ndarray, ...], codes_b: tuple[np.ndarray, ...]) -> Pairs:
    """Pairs rows all of whose codes (uint64 `[rows]`) are equal.

    Among equal rows, the first of one set belongs to the first of the other, and so on; each row has one partner at
    most.
    """
    count_a, count_b = len(codes_a[0]), len(codes_b[0])
    joined = [np.concatenate([a, b]) for a, b in zip(codes_a, codes_b)]
    # Stable: among equal rows those of `a` come first, in order.
    order = np.lexsort(joined[::-1])
    starts = np.zeros(count_a + count_b, bool)
    starts[:1] = True
    for codes in joined:
        ordered = codes[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    run = np.cumsum(starts) - 1
    run_starts = np.flatnonzero(starts)
    from_a = order < count_a
    in_run_of_a = np.bincount(run[from_a], minlength=len(run_starts))
    in_run_of_b = np.bincount(run[~from_a], minlength=len(run_starts))
    place = np.arange(count_a + count_b) - run_starts[run]
    place = np.where(from_a, place, place - in_run_of_a[run])
    paired = place < np.minimum(in_run_of_a, in_run_of_b)[run]
    a, b = order[from_a & paired], order[~from_a & paired] - count_a
    left_a, left_b = np.ones(count_a, bool), np.ones(count_b, bool)
    left_a[a], left_b[b] = False, False
    return Pairs(a, b, np.flatnonzero(left_a), np.flatnonzero(left_b))
