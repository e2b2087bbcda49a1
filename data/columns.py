"""What a column of samples is, and how a decoded ORC column becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.errors import DataError

_FLOAT32_MAX = float(np.finfo(np.float32).max)


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


def canonical(array: pa.Array, column: Column, path: str, first_row: int) -> pa.Array:
    """`array` as `column.arrow_type`, without any null, at most `max_length` long.

    `path` and `first_row` (row number of `array[0]` in the file, from 0) are for the error text.

    Raises `DataError` naming file, column and row for a null that has no declared value, a null inside a
    list, and a float that float32 cannot hold.
    """
    if not accepts(column, array.type):
        raise DataError(
            f"{path}: column {column.name}: expected {expected_type(column)}, found {array.type}; "
            "the file changed after it was checked"
        )
    if column.kind == "int64_list":
        return _canonical_list(array, column, path, first_row)
    if array.null_count and column.missing is None:
        row = pc.index(array.is_null(), True).as_py()
        raise _wrong_value(path, column, first_row + row, "null")
    # safe=False: a large integer or a double is rounded to the nearest float32, as declared, instead of
    # refused.
    values = array.cast(column.arrow_type, safe=False)
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(column.missing, column.arrow_type))
    if column.kind == "float32":
        finite = np.isfinite(values.to_numpy())
        if not finite.all():
            row = int(np.argmin(finite))
            raise _wrong_value(path, column, first_row + row, str(array[row].as_py()))
    return values


def _canonical_list(array: pa.ListArray, column: Column, path: str, first_row: int) -> pa.ListArray:
    if array.null_count and column.missing is None:
        row = pc.index(array.is_null(), True).as_py()
        raise _wrong_value(path, column, first_row + row, "null")
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    splits = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    values = array.flatten()  # leaves out what lies under a null list
    if values.null_count:
        position = pc.index(values.is_null(), True).as_py()
        row = int(np.searchsorted(splits, position, side="right")) - 1
        raise _wrong_value(path, column, first_row + row, f"a null inside the list (position {position - splits[row]})")
    if column.max_length is not None and len(lengths) and lengths.max() > column.max_length:
        kept = np.minimum(lengths, column.max_length).astype(np.int64)
        kept_splits = np.zeros_like(splits)
        np.cumsum(kept, out=kept_splits[1:])
        # The kept values of row i end where the row ends: shift each row's run of positions to its own end.
        positions = np.arange(kept_splits[-1]) + np.repeat(splits[1:] - kept_splits[1:], kept)
        values, splits = values.take(pa.array(positions)), kept_splits
    return pa.ListArray.from_arrays(pa.array(splits, pa.int32()), values.cast(pa.int64()))


def _wrong_value(path: str, column: Column, row: int, found: str) -> DataError:
    expected = {
        "int64": "an integer",
        "float32": "a finite float32 number",
        "int64_list": "a list of integers",
    }[column.kind]
    hint = "; declare a value for missing ones to read on" if found == "null" else ""
    return DataError(
        f"{path}: column {column.name}: row {row} (counted from 0): expected {expected}, found {found}{hint}"
    )
