"""What a column of samples is, and how a decoded ORC column becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.errors import DataError

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class WrongValue(DataError):
    """A value that its column does not take; the text names file, column and row."""


@dataclass(frozen=True)
class Column:
    """One declared column.

    Raises `ValueError` when `missing` or `max_length` do not fit `kind`.
    """

    name: str
    """Name of a top-level column of the ORC files."""

    kind: Literal["int64", "float32", "int64_list"]
    """`int64` takes any ORC integer or boolean, `float32` any integer, boolean, float or double (rounded to
    the nearest float32), `int64_list` an array of any integer."""

    missing: int | float | Literal["empty"] | None = None
    """What a null stands for; `"empty"` (the empty list) for a list. Default: a null is a `DataError`. A null
    *inside* a list and a float that is not finite are always a `DataError`."""

    max_length: int | None = None
    """Lists only: keep the last `max_length` values of longer lists. Default: all."""

    def __post_init__(self) -> None:
        expected = {"int64": "an int64", "float32": "a finite float32 number", "int64_list": "'empty'"}
        if self.kind not in expected:
            kinds = ", ".join(expected)
            raise ValueError(f"column {self.name}: kind: expected one of {kinds}, found {self.kind!r}")
        if self.missing is not None and not _fits(self.missing, self.kind):
            raise ValueError(f"column {self.name}: missing: expected {expected[self.kind]}, found {self.missing!r}")
        if self.max_length is not None and (self.kind != "int64_list" or self.max_length < 1):
            raise ValueError(
                f"column {self.name}: max_length: expected a positive integer on a list column, "
                f"found {self.max_length!r} on kind {self.kind}"
            )

    @property
    def arrow_type(self) -> pa.DataType:
        """The type `canonical` gives."""
        return {"int64": pa.int64(), "float32": pa.float32(), "int64_list": pa.list_(pa.int64())}[self.kind]


def _fits(missing: object, kind: str) -> bool:
    if kind == "int64_list":
        return missing == "empty"
    if isinstance(missing, bool):
        return False
    if kind == "int64":
        return isinstance(missing, int) and -(2**63) <= missing < 2**63
    return isinstance(missing, (int, float)) and abs(missing) <= _FLOAT32_MAX


def expected_type(column: Column) -> str:
    """The ORC types `column` takes, in words."""
    return {
        "int64": "an integer or boolean",
        "float32": "a number (float, double, integer or boolean)",
        "int64_list": "an array of integers",
    }[column.kind]


def accepts(column: Column, found: pa.DataType) -> bool:
    """Whether a column of the Arrow type `found` can be read as `column`."""
    if column.kind == "int64_list":
        return pa.types.is_list(found) and pa.types.is_integer(found.value_type)
    if pa.types.is_integer(found) or pa.types.is_boolean(found):
        return True
    return column.kind == "float32" and pa.types.is_floating(found)


def canonical(array: pa.Array, column: Column, path: str, rows: int | np.ndarray) -> pa.Array:
    """`array` as `column.arrow_type`, without any null, at most `max_length` long.

    `path` and `rows` (row number in the file, from 0, of `array[0]`, or int64 `[rows]` of every row) are for the error
    text.

    Raises `DataError` for a column of another type; `WrongValue` naming file, column and row for a null that has no
    declared value, a null inside a list, and a float that float32 cannot hold.
    """
    if not accepts(column, array.type):
        raise DataError(
            f"{path}: column {column.name}: expected {expected_type(column)}, found {array.type}; "
            "the file changed after it was checked"
        )
    if array.null_count and column.missing is None:
        raise _wrong_value(path, column, rows, pc.index(array.is_null(), True).as_py(), "null")
    if column.kind == "int64_list":
        return _canonical_list(array, column, path, rows)
    values = _cast(array, column)
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(column.missing, column.arrow_type))
    if column.kind == "float32":
        finite = np.isfinite(values.to_numpy())
        if not finite.all():
            row = int(np.argmin(finite))
            raise _wrong_value(path, column, rows, row, str(array[row].as_py()))
    return values


def wrong_rows(array: pa.Array, column: Column) -> np.ndarray:
    """bool `[rows]`: the rows of an array of an accepted type in which `canonical` finds a wrong value."""
    wrong = np.zeros(len(array), bool)
    if array.null_count and column.missing is None:
        wrong |= array.is_null().to_numpy(zero_copy_only=False)
    if column.kind == "float32":
        finite = np.isfinite(_cast(array, column).to_numpy(zero_copy_only=False))
        wrong |= ~finite & array.is_valid().to_numpy(zero_copy_only=False)
    elif column.kind == "int64_list":
        values, splits = _flat(array)
        if values.null_count:
            positions = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            wrong[np.searchsorted(splits, positions, side="right") - 1] = True
    return wrong


def _cast(array: pa.Array, column: Column) -> pa.Array:
    # safe=False: a large integer or a double is rounded to the nearest float32, as declared, instead of refused.
    return array.cast(column.arrow_type, safe=False)


def _flat(array: pa.ListArray) -> tuple[pa.Array, np.ndarray]:
    """The values of all lists and their row splits int64 `[rows + 1]`; a null list is empty."""
    if array.null_count:
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        splits = np.zeros(len(array) + 1, np.int64)
        np.cumsum(lengths, out=splits[1:])
    else:
        splits = array.offsets.to_numpy().astype(np.int64)
        splits -= splits[0]
    return array.flatten(), splits  # flatten leaves out what lies under a null list


def _canonical_list(array: pa.ListArray, column: Column, path: str, rows: int | np.ndarray) -> pa.ListArray:
    values, splits = _flat(array)
    if values.null_count:
        position = pc.index(values.is_null(), True).as_py()
        row = int(np.searchsorted(splits, position, side="right")) - 1
        found = f"a null inside the list (position {position - splits[row]})"
        raise _wrong_value(path, column, rows, row, found)
    if column.max_length is not None and len(array):
        lengths = np.diff(splits)
        if lengths.max() > column.max_length:
            kept = np.minimum(lengths, column.max_length)
            kept_splits = np.zeros_like(splits)
            np.cumsum(kept, out=kept_splits[1:])
            # The kept values of row i end where the row ends: shift each row's run of positions to its own end.
            positions = np.arange(kept_splits[-1]) + np.repeat(splits[1:] - kept_splits[1:], kept)
            values, splits = values.take(pa.array(positions)), kept_splits
    return pa.ListArray.from_arrays(pa.array(splits, pa.int32()), values.cast(pa.int64()))


def _wrong_value(path: str, column: Column, rows: int | np.ndarray, position: int, found: str) -> WrongValue:
    row = rows + position if isinstance(rows, int) else int(rows[position])
    expected = {
        "int64": "an integer",
        "float32": "a finite float32 number",
        "int64_list": "a list of integers",
    }[column.kind]
    hint = "; declare a value for missing ones to read on" if found == "null" else ""
    return WrongValue(
        f"{path}: column {column.name}: row {row} (counted from 0): expected {expected}, found {found}{hint}"
    )
