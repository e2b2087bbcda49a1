"""Counting different values in bounded memory: exactly while they are few, then by an estimate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from data.scan.value_codes import mixed

_INDEX_BITS = 14
_REGISTERS = 1 << _INDEX_BITS
_REST_BITS = 64 - _INDEX_BITS

RELATIVE_ERROR = 2 * 1.04 / math.sqrt(_REGISTERS)
"""Of an estimate, in 95 of 100 cases: 1.6 %."""


class Distinct(NamedTuple):
    """How many different values were seen."""

    number: int
    exact: bool
    """Else `number` is an estimate, within `RELATIVE_ERROR`."""


class DistinctCounter:
    """Counts different codes. Holds at most `limit` codes and those of one call; then 16 KiB."""

    def __init__(self, limit: int):
        self._limit = limit
        self._seen = np.zeros(0, np.uint64)
        self._new: list[np.ndarray] = []
        self._new_count = 0
        self._registers: np.ndarray | None = None

    def add(self, codes: np.ndarray) -> None:
        """Adds codes uint64 `[n]`, which may be equal to each other."""
        if self._registers is not None:
            _count(self._registers, codes)
            return
        self._new.append(np.unique(codes))
        self._new_count += len(self._new[-1])
        # Merging costs as much as what is there already, so it waits until there is as much to merge.
        if self._new_count > max(len(self._seen), self._limit // 8):
            self._merge()

    def result(self) -> Distinct:
        """What was seen so far."""
        if self._registers is None:
            self._merge()
        if self._registers is None:
            return Distinct(len(self._seen), True)
        return Distinct(round(_estimate(self._registers)), False)

    def _merge(self) -> None:
        self._seen = np.unique(np.concatenate([self._seen, *self._new]))
        self._new, self._new_count = [], 0
        if len(self._seen) > self._limit:
            self._registers = np.zeros(_REGISTERS, np.uint8)
            _count(self._registers, self._seen)
            self._seen = self._seen[:0]


def _count(registers: np.ndarray, codes: np.ndarray) -> None:
    """HyperLogLog (Flajolet and others, 2007): a register keeps the longest run of leading zeros it was shown."""
    # Mixed once more: codes may be values as they are.
    hashes = mixed(codes ^ np.uint64(0xD6E8FEB86659FD93))
    rest = (hashes << np.uint64(_INDEX_BITS)) >> np.uint64(_INDEX_BITS)
    _, length = np.frexp(rest.astype(np.float64))  # exact: 50 bits
    np.maximum.at(registers, hashes >> np.uint64(_REST_BITS), (_REST_BITS + 1 - length).astype(np.uint8))


def _estimate(registers: np.ndarray) -> float:
    """The improved raw estimator of Ertl (2017), which needs no correction for few or many values."""
    counts = np.bincount(registers, minlength=_REST_BITS + 2).astype(float)
    size = float(_REGISTERS)
    z = size * _tau(1 - counts[_REST_BITS + 1] / size)
    for k in range(_REST_BITS, 0, -1):
        z = 0.5 * (z + counts[k])
    z += size * _sigma(counts[0] / size)
    return size * size / (2 * math.log(2) * z) if z else math.inf


def _sigma(x: float) -> float:
    if x == 1:
        return math.inf
    y, z = 1.0, x
    while True:
        x *= x
        before = z
        z += x * y
        y += y
        if z == before:
            return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z = 1.0, 1 - x
    while True:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
        if z == before:
            return z / 3
