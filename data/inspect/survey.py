"""Everything that can be said of some sample files: how they are laid out and what their values are like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from data.errors import DataError
from data.inspect.layout import ColumnLayout, FileLayout, read_layouts, sum_columns
from data.inspect.profile import Profile, profile
from data.scan.distinct import RELATIVE_ERROR
from data.scan.stripe_batches import Progress

SORT_KEY = "ps_cluster.sort"
"""User metadata: JSON list of the columns that a file is sorted by."""
SCHEMA_KEY = "ps_cluster.schema"
HASH_KEY = "ps_cluster.hash"
"""User metadata of converted files, in JSON: how the columns were declared, and the ids of empty and missing texts."""

_TIME_NAMES = ("timestamp", "time", "event_time", "ts", "date_time", "datetime")
# Times from 2001 to 2100, by unit: the ranges do not meet.
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_SECOND, _LAST_SECOND = 10**9, 4_102_444_800


@dataclass(frozen=True)
class Time:
    """Which column holds the time of a row."""

    column: str
    unit: str
    """One of "s", "ms", "us", "ns" since 1970."""
    guessed: bool


@dataclass(frozen=True)
class Report:
    """What was found."""

    files: tuple[FileLayout, ...]
    columns: dict[str, ColumnLayout]
    """Over all files."""
    sort_told: tuple[str, ...]
    """By the metadata of all files; empty when they do not agree."""
    time: Time | None
    profile: Profile | None
    """None when only footers were read."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def file_bytes(self) -> int:
        return sum(file.file_bytes for file in self.files)

    @property
    def stripe_rows(self) -> list[int]:
        """Of all stripes, in order."""
        return [rows for file in self.files for rows in file.stripe_rows]

    @property
    def time_range_ms(self) -> tuple[int, int] | None:
        """First and last time, in milliseconds since 1970; by the footers when no values were read."""
        if self.profile is not None:
            first, last = self.profile.first_ms, self.profile.last_ms
            return (first, last) if first is not None and last is not None else None
        if self.time is None:
            return None
        column = self.columns[self.time.column]
        if column.minimum is None or column.maximum is None:
            return None
        per_ms = _UNITS_PER_SECOND[self.time.unit] / 1000
        return int(column.minimum // per_ms), int(column.maximum // per_ms)


def inspect(
    paths: Sequence[str], fast: bool = False, time_column: str | None = None, progress: Progress | None = None
) -> Report:
    """Looks at the ORC files `paths`; with `fast`, only at their footers.

    `time_column`: default: a column with a usual name and plausible values. Raises `DataError`.
    """
    layouts = read_layouts(paths)
    columns = sum_columns(layouts)
    time = _time(columns, time_column)
    told = _told(layouts)
    found = None
    if not fast:
        rows = sum(layout.rows for layout in layouts)
        per_ms = _UNITS_PER_SECOND[time.unit] / 1000 if time is not None else 1.0
        found = profile(paths, rows, told, time.column if time else None, 1 / per_ms, _empty_ids(layouts), progress)
    return Report(tuple(layouts), columns, told, time, found)


def to_json(report: Report) -> str:
    """The report for programs; sizes in bytes, times in milliseconds since 1970."""
    stripes = report.stripe_rows
    columns: dict[str, dict[str, Any]] = {}
    for name, layout in report.columns.items():
        columns[name] = {**asdict(layout), "bytes_per_row": _per_row(layout.data_bytes + layout.index_bytes, layout)}
        if report.profile is not None and name in report.profile.columns:
            found = report.profile.columns[name]
            values = asdict(found)
            values.pop("distinct")
            values |= {"coverage": found.coverage, "distinct": found.distinct.number}
            values["distinct_is_exact"] = found.distinct.exact
            columns[name] |= values
    times = report.time_range_ms
    result = {
        "rows": report.rows,
        "file_bytes": report.file_bytes,
        "bytes_per_row": report.file_bytes / report.rows if report.rows else None,
        "stripes": len(stripes),
        "stripe_rows": {"least": min(stripes), "median": float(np.median(stripes)), "most": max(stripes)}
        if stripes
        else None,
        "columns": columns,
        "distinct_relative_error": RELATIVE_ERROR,
        "time": None if report.time is None else asdict(report.time),
        "time_range_ms": None if times is None else list(times),
        "rows_per_day": None if report.profile is None else report.profile.rows_per_day,
        "sort_order": {"told": report.sort_told} if report.profile is None else asdict(report.profile.order),
        "files": [{**asdict(replace(file, columns={})), "stripes": len(file.stripe_rows)} for file in report.files],
    }
    return json.dumps(_finite(result), indent=2, ensure_ascii=False)


def _per_row(count: int, column: ColumnLayout) -> float | None:
    return count / column.rows if column.rows else None


def _finite(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: null."""
    if isinstance(value, dict):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _time(columns: dict[str, ColumnLayout], wanted: str | None) -> Time | None:
    if wanted is not None:
        if wanted not in columns:
            raise DataError(f"--time: expected a column of the files, found {wanted!r}; they have {', '.join(columns)}")
        unit = _unit(columns[wanted])
        if unit is None:
            raise DataError(
                f"--time: expected a column of times (integers since 1970, or an ORC timestamp), found {wanted!r}: "
                f"{columns[wanted].type} from {columns[wanted].minimum} to {columns[wanted].maximum}"
            )
        return Time(wanted, unit, False)
    for name in _TIME_NAMES:
        unit = _unit(columns[name]) if name in columns else None
        if unit is not None:
            return Time(name, unit, True)
    return None


def _unit(column: ColumnLayout) -> str | None:
    """The unit of a column of times; None when it holds none, by its type or its least and greatest value."""
    if " or " in column.type and "timestamp" in column.type:
        return None
    if column.type.startswith("timestamp["):
        return column.type.removeprefix("timestamp[").split("]")[0].split(",")[0]
    if column.minimum is None or column.maximum is None or not column.type.startswith("int"):
        return None
    for unit, per_second in _UNITS_PER_SECOND.items():
        if _FIRST_SECOND * per_second <= column.minimum <= column.maximum <= _LAST_SECOND * per_second:
            return unit
    return None


def _empty_ids(layouts: Sequence[FileLayout]) -> dict[str, list[int]]:
    """By column of hashed texts: the ids that stand for none, as far as all files agree."""
    found = {(layout.metadata.get(SCHEMA_KEY), layout.metadata.get(HASH_KEY)) for layout in layouts}
    if len(found) != 1:
        return {}
    try:
        schema, hashing = (json.loads(text or "null") for text in found.pop())
        ids = [hashing[name] for name in ("empty_id", "missing_id") if isinstance(hashing.get(name), int)]
        return {column["name"]: ids for column in schema["columns"] if column["kind"] == "hashed_id"}
    except (ValueError, KeyError, TypeError, AttributeError):  # of another maker, or cut
        return {}


def _told(layouts: Sequence[FileLayout]) -> tuple[str, ...]:
    told = {layout.metadata.get(SORT_KEY) for layout in layouts}
    if len(told) != 1:
        return ()
    try:
        names = json.loads(told.pop() or "[]")
    except ValueError:
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()
