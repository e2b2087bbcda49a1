"""Which columns rows are sorted by, found while they pass by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

_SORTABLE = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_floating,
    pa.types.is_timestamp,
    pa.types.is_date,
)


def sortable(kind: pa.DataType) -> bool:
    """Whether columns of this type are looked at."""
    return any(test(kind) for test in _SORTABLE)


Keys = tuple[np.ndarray, np.ndarray]
"""Whether there is a value, and the value: compared in this order, nulls come first."""


def sort_keys(array: pa.Array) -> Keys:
    """What rows are compared by: bool and int64 or float64 `[rows]`. NaN is above all numbers."""
    if pa.types.is_floating(array.type):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        values = np.where(np.isnan(values), np.inf, values)
    else:
        narrow = pa.types.is_date32(array.type)
        array = array.cast(pa.int32()) if narrow else array
        values = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return array.is_valid().to_numpy(zero_copy_only=False), values


class SortCheck:
    """Whether rows are sorted, ascending, nulls first, by given columns."""

    def __init__(self, columns: Sequence[str]):
        self.columns = tuple(columns)
        self.first_violation: int | None = None
        """Number of the first row, from 0 over all, that is less than the one before it."""
        self._rows = 0
        self._last: dict[str, Keys] = {}

    def add(self, columns: Mapping[str, Keys]) -> None:
        """The next rows."""
        rows = len(columns[self.columns[0]][0])
        if self.first_violation is None and rows:
            undecided = np.ones(rows - 1 + bool(self._last), bool)
            falls = np.zeros(len(undecided), bool)
            for name in self.columns:
                valid, values = _with_last(columns[name], self._last.get(name))
                less, equal = _compared(valid, values)
                falls |= undecided & less
                undecided &= equal
            if falls.any():
                self.first_violation = self._rows + int(np.argmax(falls)) + (0 if self._last else 1)
            self._last = {name: _last_of(columns[name]) for name in self.columns}
        self._rows += rows


class SortFinder:
    """The columns that rows are sorted by, at most two: the first alone, the second among equal values of the first."""

    def __init__(self) -> None:
        self._alive: dict[str, set[str]] | None = None
        """By column that is sorted so far: the columns that are sorted so far among its equal values."""
        self._rising: set[tuple[str, str]] = set()
        """(column, other): among equal values of the column, the other is not always equal."""
        self._last: dict[str, Keys] = {}
        self._varied: set[str] = set()

    def add(self, columns: Mapping[str, Keys]) -> None:
        """The next rows; every call has the same columns."""
        if self._alive is None:
            self._alive = {name: set(columns) - {name} for name in columns}
        joined = {name: _with_last(keys, self._last.get(name)) for name, keys in columns.items()}
        wanted = set(self._alive).union(*self._alive.values()) if self._alive else set()
        compared = {name: _compared(*joined[name]) for name in wanted}
        for first in list(self._alive):
            less, equal = compared[first]
            if less.any():
                del self._alive[first]
                continue
            if not equal.all():
                self._varied.add(first)
            for second in list(self._alive[first]):
                falls, same = compared[second]
                if (falls & equal).any():
                    self._alive[first].discard(second)
                elif (equal & ~same).any():
                    self._rising.add((first, second))
        if columns and len(next(iter(columns.values()))[0]):
            self._last = {name: _last_of(keys) for name, keys in columns.items()}

    def found(self, prefer: Sequence[str]) -> tuple[str, ...]:
        """The sort order; empty when there is none. Of several that hold, the one with columns early in `prefer`.

        A column whose values are all equal, or the second one when they are so among equal values of the first, is
        sorted, but says nothing: it is left out.
        """
        rank = {name: number for number, name in enumerate(prefer)}
        orders: list[tuple[str, ...]] = []
        for first, seconds in (self._alive or {}).items():
            if first in self._varied:
                orders += [(first, second) for second in seconds if (first, second) in self._rising] or [(first,)]
        # With a second column more is known than without.
        return min(orders, key=lambda o: (-len(o), [rank.get(name, len(rank)) for name in o], o), default=())


def _with_last(keys: Keys, last: Keys | None) -> Keys:
    if last is None:
        return keys
    return np.concatenate([last[0], keys[0]]), np.concatenate([last[1], keys[1]])


def _last_of(keys: Keys) -> Keys:
    return keys[0][-1:], keys[1][-1:]


def _compared(valid: np.ndarray, values: np.ndarray) -> Keys:
    """For each row but the first: whether it is less than the one before, and whether it is equal."""
    before, after = valid[:-1], valid[1:]
    both = before & after
    less = (before & ~after) | (both & (values[1:] < values[:-1]))
    equal = (both & (values[1:] == values[:-1])) | ~(before | after)
    return less, equal
