"""What the values of some files are like, column by column, from one pass over all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.inspect.sort_order import SortCheck, SortFinder, sort_keys, sortable
from data.scan.distinct import Distinct, DistinctCounter
from data.scan.stripe_batches import Progress, stripe_batches
from data.scan.value_codes import codes

EXACT_DISTINCT = 200_000
"""Different values of a column that are counted exactly; they take 1.6 MB a column."""
_MOST_DAYS = 20_000
_MS_PER_DAY = 86_400_000


@dataclass(frozen=True)
class ColumnProfile:
    """The values of one column."""

    rows: int
    """Of the files that have the column."""
    nulls: int
    empty: int
    """Empty lists and texts, and ids that stand for such."""
    not_finite: int
    """NaN and infinite floats."""
    elements: int | None
    """Of a list column: items of all lists."""
    longest: int | None
    """Of a list column: items of the longest list."""
    minimum: int | float | None
    """Least and greatest number (of a list column: of the items), floats that are not finite aside."""
    maximum: int | float | None
    distinct: Distinct
    """Different values (of a list column: items); nulls aside."""

    @property
    def coverage(self) -> float:
        """Share of rows that are neither null nor empty; NaN without rows."""
        return (self.rows - self.nulls - self.empty) / self.rows if self.rows else math.nan


@dataclass(frozen=True)
class Order:
    """How the rows are sorted, ascending, nulls first."""

    found: tuple[str, ...]
    """Columns that all rows of all files, in their order, are sorted by; at most two, empty when there are none."""
    found_in_files: tuple[str, ...]
    """The same of each file for itself."""
    told: tuple[str, ...]
    """Columns that the files' metadata name; empty when they name none."""
    told_holds: bool | None
    """Whether the rows of each file are really sorted by these; None when the metadata name none."""


@dataclass(frozen=True)
class Profile:
    """All that one pass finds."""

    rows: int
    columns: dict[str, ColumnProfile]
    order: Order
    time_column: str | None
    first_ms: int | None
    """Of the time column, in milliseconds since 1970."""
    last_ms: int | None
    rows_per_day: dict[int, int]
    """By days since 1970 (UTC), ascending; empty without time column or for more than 20,000 days."""


def profile(
    paths: Sequence[str],
    rows: int,
    told: tuple[str, ...] = (),
    time_column: str | None = None,
    ms_per_unit: float = 1.0,
    empty_ids: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Reads all rows of `paths`. `rows`: how many there are; `told`: sort order that the files' metadata name;
    `ms_per_unit`: milliseconds in a unit of the time column; `empty_ids`: by integer column, the ids that stand for an
    empty or missing text.

    Memory: two decoded stripes and, for each column, at most `EXACT_DISTINCT` codes. Raises `DataError`.
    """
    columns: dict[str, _Column] = {}
    days = _Days(ms_per_unit)
    whole = SortFinder()
    of_files: list[tuple[SortFinder, SortCheck | None]] = []
    path = None
    schema: list[str] | None = None
    done = 0
    for stripe, batch in stripe_batches(paths, None, progress, rows):
        for name, array in zip(batch.schema.names, batch.columns):
            column = columns.setdefault(name, _Column((empty_ids or {}).get(name, ())))
            column.add(array)
        keys = {
            name: sort_keys(array) for name, array in zip(batch.schema.names, batch.columns) if sortable(array.type)
        }
        if stripe.path != path:
            path = stripe.path
            of_files.append((SortFinder(), SortCheck(told) if told else None))
        finder, check = of_files[-1]
        finder.add(keys)
        if schema is None or schema == list(keys):
            whole.add(keys)
            schema = list(keys)
        else:
            whole, schema = SortFinder(), ["different in each file"]
        if check is not None:
            if all(name in keys for name in told):
                check.add(keys)
            else:
                of_files[-1] = (finder, None)
        if time_column in keys:
            days.add(keys[time_column])
        done += batch.num_rows
    # Ids and times before other numbers, which are in order by chance.
    integers = [name for name, column in columns.items() if column.holds_integers]
    prefer = [*told, *([time_column] if time_column else []), *integers]
    prefer = list(dict.fromkeys(prefer))
    order = Order(
        found=whole.found(prefer),
        found_in_files=_common([finder.found(prefer) for finder, _ in of_files]),
        told=told,
        told_holds=all(check is not None and check.first_violation is None for _, check in of_files) if told else None,
    )
    return Profile(
        rows=done,
        columns={name: column.profile() for name, column in columns.items()},
        order=order,
        time_column=time_column,
        first_ms=days.first_ms,
        last_ms=days.last_ms,
        rows_per_day=dict(sorted(days.rows.items())) if len(days.rows) <= _MOST_DAYS else {},
    )


def _common(orders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all orders begin with."""
    result = []
    for names in zip(*orders):
        if len(set(names)) > 1:
            break
        result.append(names[0])
    return tuple(result)


class _Column:
    def __init__(self, empty_ids: Sequence[int]) -> None:
        self._empty_ids = pa.array(empty_ids, pa.int64())
        self._rows = self._nulls = self._empty = self._not_finite = self._elements = self._longest = 0
        self._is_list = False
        self._least: int | float | None = None
        self._greatest: int | float | None = None
        self._distinct = DistinctCounter(EXACT_DISTINCT)

    def add(self, array: pa.Array) -> None:
        self._rows += len(array)
        self._nulls += array.null_count
        values = array
        if pa.types.is_list(array.type):
            self._is_list = True
            lengths = pc.list_value_length(array)
            self._empty += pc.sum(pc.equal(lengths, 0), min_count=0).as_py() or 0
            self._longest = max(self._longest, pc.max(lengths).as_py() or 0)
            values = array.flatten()
            self._elements += len(values)
        elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            self._empty += pc.sum(pc.equal(pc.binary_length(array), 0), min_count=0).as_py() or 0
        elif len(self._empty_ids) and pa.types.is_int64(array.type):
            self._empty += pc.sum(pc.is_in(array, self._empty_ids), min_count=0).as_py() or 0
        unique = (values if pa.types.is_nested(values.type) else values.unique()).drop_null()
        if pa.types.is_floating(values.type):
            finite = pc.is_finite(values)
            self._not_finite += len(values) - values.null_count - (pc.sum(finite, min_count=0).as_py() or 0)
        self._distinct.add(codes(unique))
        self._widen(unique)

    def _widen(self, unique: pa.Array) -> None:
        if pa.types.is_floating(unique.type):
            unique = unique.filter(pc.is_finite(unique))
        elif pa.types.is_boolean(unique.type):
            unique = unique.cast(pa.int64())
        elif not pa.types.is_integer(unique.type):
            return
        if len(unique):
            ends = pc.min_max(unique).as_py()
            self._least = ends["min"] if self._least is None else min(self._least, ends["min"])
            self._greatest = ends["max"] if self._greatest is None else max(self._greatest, ends["max"])

    @property
    def holds_integers(self) -> bool:
        return not self._is_list and isinstance(self._least, int)

    def profile(self) -> ColumnProfile:
        return ColumnProfile(
            rows=self._rows,
            nulls=self._nulls,
            empty=self._empty,
            not_finite=self._not_finite,
            elements=self._elements if self._is_list else None,
            longest=self._longest if self._is_list else None,
            minimum=self._least,
            maximum=self._greatest,
            distinct=self._distinct.result(),
        )


class _Days:
    def __init__(self, ms_per_unit: float):
        self._ms_per_unit = ms_per_unit
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.rows: dict[int, int] = {}

    def add(self, keys: tuple[np.ndarray, np.ndarray]) -> None:
        valid, values = keys
        values = values[valid]
        if not len(values):
            return
        scale = self._ms_per_unit
        ms = values * int(scale) if scale >= 1 else values // round(1 / scale)
        self.first_ms = int(ms.min()) if self.first_ms is None else min(self.first_ms, int(ms.min()))
        self.last_ms = int(ms.max()) if self.last_ms is None else max(self.last_ms, int(ms.max()))
        if len(self.rows) > _MOST_DAYS:
            return
        days, counts = np.unique(ms // _MS_PER_DAY, return_counts=True)
        for day, count in zip(days.tolist(), counts.tolist()):
            self.rows[int(day)] = self.rows.get(int(day), 0) + count
