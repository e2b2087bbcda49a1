"""The variables that hold an exported table: which each form has, and what they are filled with, piece by piece.

`plain`: `hashes`, int64 `[n + 1]`, ascending, and last the largest int64. `ops`: `keys`, int64 `[n]`, in the order of
their hashes, and `starts`, int32 `[2^k + 1]`, as `ops.lookup_concat.hash_order` says. Both: `rows`, `[n + 1, width]`,
the last one every other id's, and of int8 `scales`, float32 `[n + 1]`. `tfra` has no variables but a table of TFRA's,
whose values are `keys`, int64 `[n]`, and `values`, float32 `[n, width]`; every other id's row is a part of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from ops.lookup_concat import HashCounts
from ps_cluster.errors import UserError
from ps_cluster.export.ordered_rows import CHUNK_BYTES, Chunk, OrderedRows, joined
from ps_cluster.export.row_types import VARIABLE_TYPES, RowType, row_bytes

Form = Literal["plain", "ops", "tfra"]
"""`plain`: TensorFlow's own operations. `ops`: with those of the library `ops/_rankmixer.so`. `tfra`: with TFRA's."""

TABLES = "tables/"
"""What the names of tables' variables begin with."""

_MOST_PIECES = 256
_SIGN = np.uint64(1 << 63)


def variable_name(table: str, part: str) -> str:
    """What a variable of a table is called in a SavedModel."""
    return f"{TABLES}{table}/{part}"


def parts_of(form: Form, row_type: RowType) -> tuple[str, ...]:
    """Names of a table's variables."""
    if form == "tfra":
        return ("keys", "values")
    index = ("hashes",) if form == "plain" else ("keys", "starts")
    return (*index, "rows", "scales") if row_type == "int8" else (*index, "rows")


def check_size(form: Form, table: str, num_rows: int) -> None:
    """Raises UserError where a form cannot count so many rows."""
    if form == "ops" and num_rows >= 1 << 31:
        raise UserError(f"tables.{table}: expected fewer than 2^31 rows for the form `ops`, found {num_rows}")


def shapes_of(form: Form, rows: OrderedRows) -> dict[str, tuple[int, ...]]:
    """Shapes of a table's variables but `starts`, which `pieces` gives whole."""
    if form == "tfra":
        return {"keys": (rows.num_rows,), "values": (rows.num_rows, rows.width)}
    ends: dict[str, tuple[int, ...]] = {"rows": (rows.num_rows + 1, rows.width)}
    if rows.row_type == "int8":
        ends["scales"] = (rows.num_rows + 1,)
    return {"hashes": (rows.num_rows + 1,), **ends} if form == "plain" else {"keys": (rows.num_rows,), **ends}


def rows_at_once(rows: OrderedRows) -> int:
    """Rows of a piece."""
    size = 8 + row_bytes(rows.width, rows.row_type)
    return max(CHUNK_BYTES, rows.num_rows * size // _MOST_PIECES) // size


def pieces(form: Form, rows: OrderedRows) -> Iterator[dict[str, np.ndarray]]:
    """What a table's variables hold, cut along their first axis; the cuts depend on the rows' number and size alone.

    `starts` comes whole, in the last piece.
    """
    at_once = rows_at_once(rows)
    counts = HashCounts(rows.num_rows) if form == "ops" else None
    found = 0
    for chunk in _rechunked(rows.chunks(), at_once):
        found += len(chunk)
        piece = _piece(form, rows.row_type, chunk)
        if counts is not None:
            counts.add(chunk.hashes)
        yield piece
    assert found == rows.num_rows, f"{found} rows, {rows.num_rows} were told"
    if form == "tfra":
        if not found:
            yield _piece(form, rows.row_type, rows.unknown.at(slice(0)))
        return
    last = _piece(form, rows.row_type, rows.unknown)
    if form == "plain":
        last["hashes"] = np.array([np.iinfo(np.int64).max])
    else:
        assert counts is not None
        last["keys"] = last["keys"][:0]
        last["starts"] = counts.starts()
    yield last


def signed(hashes: np.ndarray) -> np.ndarray:
    """Hashes uint64 as int64 of the same order."""
    return (hashes ^ _SIGN).view(np.int64)


def _piece(form: Form, row_type: RowType, chunk: Chunk) -> dict[str, np.ndarray]:
    if form == "tfra":
        return {"keys": chunk.keys, "values": chunk.values}
    piece = {"hashes": signed(chunk.hashes)} if form == "plain" else {"keys": chunk.keys}
    piece["rows"] = chunk.values.view(VARIABLE_TYPES[row_type])
    if chunk.scales is not None:
        piece["scales"] = chunk.scales
    return piece


def _rechunked(chunks: Iterator[Chunk], at_once: int) -> Iterator[Chunk]:
    """The same rows in chunks of `at_once`, the last one with the rest."""
    waiting: list[Chunk] = []
    count = 0
    for chunk in chunks:
        while len(chunk):
            taken = chunk.at(slice(0, at_once - count))
            chunk = chunk.at(slice(len(taken), None))
            waiting.append(taken)
            count += len(taken)
            if count == at_once:
                yield joined(waiting)
                waiting, count = [], 0
    if waiting:
        yield joined(waiting)
