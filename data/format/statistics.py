"""What ORC records of a column's values in a file, a stripe or a row group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload


@dataclass(frozen=True)
class Statistics:
    """Of the values of one column (for a list column: of its lists) in some rows."""

    count: int
    """Values that are not null."""
    has_null: bool
    """Whether any value may be null."""
    minimum: int | float | None
    """Least value, or None where the file does not tell it for sure: other types than integers, floats and booleans (0
    or 1), no value at all, and floats among which there was a NaN."""
    maximum: int | float | None
    total: int | None
    """Sum of the integers, when the file tells it."""


def from_message(message: Any) -> Statistics:
    """The statistics of a `ColumnStatistics` message."""
    count = message.values
    minimum: int | float | None = None
    maximum: int | float | None = None
    total: int | None = None
    if message.HasField("integers"):
        integers = message.integers
        if integers.HasField("minimum") and integers.HasField("maximum"):
            minimum, maximum = integers.minimum, integers.maximum
        total = integers.sum if integers.HasField("sum") else None
    elif message.HasField("doubles"):
        doubles = message.doubles
        # ORC's writers compare a NaN like a number: a row group that starts with one has NaN as minimum and maximum,
        # and its other values are lost from those of the stripe. Any NaN makes the sum one; so only with a sum that is
        # a number can the minimum and maximum be believed.
        if doubles.HasField("minimum") and doubles.HasField("maximum") and doubles.HasField("sum"):
            believed = not math.isnan(doubles.sum) and not math.isnan(doubles.minimum + doubles.maximum)
            if believed:
                minimum, maximum = doubles.minimum, doubles.maximum
    elif message.HasField("buckets") and message.buckets.count and count:
        true = message.buckets.count[0]
        minimum, maximum = int(true >= count), int(true > 0)
    if not count or (minimum is not None and maximum is not None and minimum > maximum):
        minimum = maximum = None
    has_null = message.has_null if message.HasField("has_null") else True
    return Statistics(count, has_null, minimum, maximum, total)


class StatisticsRow(Sequence[Statistics]):
    """Statistics by ORC type id, made from the messages when asked for: a file may hold a great many."""

    def __init__(self, messages: Sequence[Any]):
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> Statistics: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Statistics]: ...
    def __getitem__(self, index: int | slice) -> Statistics | Sequence[Statistics]:
        if isinstance(index, slice):
            return [from_message(message) for message in self._messages[index]]
        return from_message(self._messages[index])
