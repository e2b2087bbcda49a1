"""Sort keys: the order of rows, and keys as bytes whose order is the rows'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_SIGN = np.uint64(1 << 63)


def order_of(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """int64 `[rows]`: the stable order by integer columns, ascending, nulls first, the first column counting most."""
    arrays = []
    for name in reversed(columns):
        null, values = _parts(table, name)
        arrays.append(values)
        if null.any():
            arrays.append(~null)
    return np.lexsort(arrays) if arrays else np.arange(table.num_rows)


def keys_of(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Bytes `[rows]`, 9 for each column: compared as bytes they are ordered as `order_of` orders their rows."""
    parts = np.zeros((table.num_rows, len(columns), 9), np.uint8)
    for index, name in enumerate(columns):
        null, values = _parts(table, name)
        parts[:, index, 0] = ~null
        ordered = (values.view(np.uint64) ^ _SIGN).astype(">u8")
        parts[:, index, 1:] = np.where(null[:, None], np.uint8(0), ordered.view(np.uint8).reshape(-1, 8))
    return parts.reshape(-1).view(f"S{9 * len(columns)}")


def _parts(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Nulls, bool `[rows]`, and values, int64 `[rows]`, 0 where null."""
    column = table.column(name)
    null = column.is_null().to_numpy() if column.null_count else np.zeros(table.num_rows, bool)
    values = (column.fill_null(0) if column.null_count else column).to_numpy().astype(np.int64)
    return null, values
