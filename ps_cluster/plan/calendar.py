"""Columns that are a part of the time, such as the hour or the weekday: they have as many values as the calendar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_HOUR, _DAY = 3600, 86_400
_ZONES = range(-12, 15)
_LEAST_VALUES = 3
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday."""


@dataclass(frozen=True)
class Cycle:
    """seconds: of one value. values: after which they come again."""

    name: str
    seconds: int
    values: int


CYCLES = (
    Cycle("hour of the day", _HOUR, 24),
    Cycle("day of the week", _DAY, 7),
    Cycle("hour of the week", _HOUR, 168),
)


class CalendarColumn:
    """Looks whether every value of a column is that of one of `CYCLES` at its row's time, counted from any value and
    in any whole hour's zone."""

    def __init__(self) -> None:
        self._open: list[tuple[Cycle, int, int]] | None = None
        self._values: set[int] = set()

    def add(self, values: np.ndarray, times: np.ndarray) -> None:
        """Some rows' values int64 `[rows]`, and their times in seconds since 1970."""
        if self._open == [] or not len(values):
            return
        self._values.update(values[:: max(len(values) // 64, 1)].tolist())
        pairs = np.unique(np.stack([values, times // _HOUR]), axis=1)
        if self._open is None:
            self._open = [(cycle, zone, least) for cycle in CYCLES for zone in _ZONES
                          for least in _starts(cycle, zone, int(pairs[0, 0]), int(pairs[1, 0]))]  # fmt: skip
        self._open = [one for one in self._open if np.array_equal(_value(*one, pairs[1]), pairs[0])]

    def cycle(self) -> Cycle | None:
        """The one with the fewest values that fits; None: no calendar, or too few values to tell."""
        if len(self._values) < _LEAST_VALUES:
            return None
        found = sorted({cycle for cycle, _, _ in self._open or ()}, key=lambda one: one.values)
        return found[0] if found else None


def _place(cycle: Cycle, zone: int, hours: np.ndarray) -> np.ndarray:
    """In the cycle, from 0; it begins at midnight, and the week on Monday."""
    shifted = hours + zone + (24 * _EPOCH_WEEKDAY if cycle.values != 24 else 0)
    return shifted * _HOUR // cycle.seconds % cycle.values


def _value(cycle: Cycle, zone: int, least: int, hours: np.ndarray) -> np.ndarray:
    return _place(cycle, zone, hours) + least


def _starts(cycle: Cycle, zone: int, value: int, hour: int) -> list[int]:
    """The least value of the cycle, if the first row's is to fit: 0 or 1, as calendars count."""
    least = value - int(_place(cycle, zone, np.array([hour]))[0])
    return [least] if least in (0, 1) else []
