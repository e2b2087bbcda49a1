"""When ids came first and how often they came, counted in cells; and what each kind of id puts into the cells.

The part of the log that was read is 1 long. A cell is a number of visits (1, 2, … `FEW`, or more) and a part of the
length in which the first of them was. Visits of an id are a Poisson process of its own rate. An id that is there from
the beginning, with a mean of `m` visits, comes `c` times and first within `[a, b]` with the probability
`Poisson(c; m) * ((1 - a)**c - (1 - b)**c)`. One that appears at a random moment and stays comes first around `x` and
then `c - 1` times more with the density `(1 - exp(-m * x)) * Poisson(c - 1; m * (1 - x))`, if one of them appears in
the whole length. One that comes in a short while comes first anywhere, whatever its number of visits.
"""

from __future__ import annotations

import math

import numpy as np

FEW = 40
EDGES = np.array([0, 1 / 128, 1 / 64, 1 / 32, 1 / 16, *np.arange(1, 9) / 8])
PARTS = len(EDGES) - 1
LOG_MEANS = np.linspace(math.log(1e-5), math.log(100.0), 100)
MEANS = np.exp(LOG_MEANS)
"""Visits in the part that was read, of ids that a law stands for; those that came more often speak for themselves."""
_BIN = 1.15
_COUNTS = np.arange(1, FEW + 1)
_LOG_FACTORIAL = np.array([math.lgamma(one + 1.0) for one in range(FEW + 2)])
_WIDTHS = np.diff(EDGES)


def cells(visits: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Numbers of ids, `[FEW + 1, PARTS]`; the last row holds those with more visits. first: from 0 to 1."""
    row = np.minimum(visits, FEW + 1) - 1
    part = np.clip(np.searchsorted(EDGES, first, side="right") - 1, 0, PARTS - 1)
    return np.bincount(row * PARTS + part, minlength=(FEW + 1) * PARTS).reshape(FEW + 1, PARTS).astype(float)


def lasting(means: np.ndarray) -> np.ndarray:
    """Probabilities of the cells for ids that are there from the beginning, `[means, FEW + 1, PARTS]`."""
    within = (1 - EDGES[:-1]) ** _COUNTS[:, None] - (1 - EDGES[1:]) ** _COUNTS[:, None]
    low = _poisson(_COUNTS[None, :], means[:, None])[:, :, None] * within
    return _with_more(low, discovered(means))


def born(means: np.ndarray) -> np.ndarray:
    """Expected ids in the cells if one of each mean appears within the length and stays, `[means, FEW + 1, PARTS]`."""
    points, weights = np.polynomial.legendre.leggauss(5)
    x = (EDGES[1:] + EDGES[:-1])[:, None] / 2 + _WIDTHS[:, None] / 2 * points
    there = -np.expm1(-means[:, None, None] * x) * (_WIDTHS[:, None] / 2 * weights)
    later = means[:, None, None] * (1 - x)
    low = np.stack([(there * _poisson(np.int64(count - 1), later)).sum(axis=2) for count in _COUNTS], axis=1)
    return _with_more(low, there.sum(axis=2))


def passing(means: np.ndarray) -> np.ndarray:
    """Expected ids in the cells if one of each mean comes in a short while, `[means, FEW + 1, PARTS]`."""
    low = _poisson(_COUNTS[None, :], means[:, None])[:, :, None] * _WIDTHS
    return _with_more(low, -np.expm1(-means)[:, None] * _WIDTHS)


def discovered(means: np.ndarray) -> np.ndarray:
    """Probabilities that ids from the beginning come first in each part, `[means, PARTS]`."""
    return np.exp(-means[:, None] * EDGES[:-1]) - np.exp(-means[:, None] * EDGES[1:])


def evenly() -> np.ndarray:
    """Shares of the parts of what comes at a constant rate, `[PARTS]`."""
    return _WIDTHS


def many(visits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids with more than `FEW` visits: their means, nearly equal ones together, and how many they are."""
    often = visits[visits > FEW].astype(float)
    if not len(often):
        return np.zeros(0), np.zeros(0)
    place = np.floor(np.log(often / FEW) / math.log(_BIN)).astype(int)
    number, sums = np.bincount(place).astype(float), np.bincount(place, weights=often)
    kept = number > 0
    return sums[kept] / number[kept], number[kept]


def _with_more(low: np.ndarray, whole: np.ndarray) -> np.ndarray:
    more = np.maximum(whole - low.sum(axis=1), 0.0)
    return np.concatenate([low, more[:, None]], axis=1)


def _poisson(count: np.ndarray | np.int64, means: np.ndarray) -> np.ndarray:
    return np.exp(count * np.log(np.maximum(means, 1e-300)) - means - _LOG_FACTORIAL[count])
