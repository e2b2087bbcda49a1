"""How the rows of an exported table are stored: as float32, float16, or int8 with a scale for each row."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ps_cluster.errors import UserError

RowType = Literal["float32", "float16", "int8"]
ROW_TYPES: tuple[RowType, ...] = ("float32", "float16", "int8")

_LARGEST_INT8 = 127
_LARGEST = {"float16": float(np.finfo(np.float16).max), "int8": 3e38}
"""Of the last, so that 127 times a rounded scale is a number."""


VARIABLE_TYPES: dict[RowType, type] = {"float32": np.float32, "float16": np.int16, "int8": np.int8}
"""What variables hold rows in. TensorFlow does not restore pieces of float16, so their bits are called int16."""


def row_bytes(width: int, row_type: RowType) -> int:
    """Bytes of a row of `width` values, its scale included."""
    return width * np.dtype(row_type).itemsize + 4 * (row_type == "int8")


def stored(rows: np.ndarray, row_type: RowType, what: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows float32 `[n, width]` as they are stored, and of int8 what each row is to be multiplied by, float32 `[n]`.

    Of int8 a row's largest value by size becomes 127 or -127, and the others the nearest multiples of its 127th part.
    What becomes of a row depends on nothing but the row.

    Raises:
        UserError: a value that the type cannot hold; `what` names the table.
    """
    if row_type == "float32":
        return rows, None
    largest = np.abs(rows).max(axis=1, initial=0.0)
    limit = _LARGEST[row_type]
    if not (largest <= limit).all():
        found = largest[~(largest <= limit)][0]
        raise UserError(f"{what}: expected values up to {limit:g} for rows of {row_type}, found {found:g}")
    if row_type == "float16":
        return rows.astype(np.float16), None
    scales = (largest / _LARGEST_INT8).astype(np.float32)
    over = np.where(scales > 0, scales, np.float32(1))[:, np.newaxis]
    # A scale below the normal numbers may be rounded so far that a quotient is beyond 127.
    return np.clip(np.rint(rows / over), -_LARGEST_INT8, _LARGEST_INT8).astype(np.int8), scales


def as_float(values: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
    """Stored rows as a look-up gives them, float32 `[n, width]`."""
    rows = values.astype(np.float32)
    return rows if scales is None else rows * scales[:, np.newaxis]
