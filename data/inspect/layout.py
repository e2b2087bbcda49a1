"""How sample files are laid out: bytes, stripes and statistics of each column, from footers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from data.errors import DataError
from data.files import open_input
from data.format import checksums
from data.format.statistics import Statistics
from data.format.tail import Tail, read_stripe_footer, read_tail

_READ_AT_ONCE = 8
_LONGEST_METADATA = 1 << 20

Progress = Callable[[int, int], None]
"""Told (rows done, rows in all)."""


@dataclass(frozen=True)
class ColumnLayout:
    """One column in one file or, added up, in several."""

    type: str
    """As Arrow names it."""
    rows: int
    """Of the files that have the column."""
    data_bytes: int
    index_bytes: int
    values: int | None
    """Rows that are not null; None where the files do not tell."""
    minimum: int | float | None
    """Least and greatest value as the files tell them; None for other types than numbers and booleans."""
    maximum: int | float | None


@dataclass(frozen=True)
class FileLayout:
    """What one file says of itself."""

    path: str
    file_bytes: int
    rows: int
    stripe_rows: tuple[int, ...]
    codec: str
    block_bytes: int
    row_index_stride: int
    checksums: bool
    """Whether it carries checksums (of which those of its tail have been compared)."""
    metadata: dict[str, str]
    """User metadata, without the checksums."""
    columns: dict[str, ColumnLayout]
    other_bytes: int
    """Of the file that belong to no column: footers, statistics of the file, and so on."""


def read_layout(path: str) -> FileLayout:
    """The layout of the ORC file `path`. Raises `DataError`."""
    try:
        with open_input(path) as file:
            tail = read_tail(file, path)
            carried = checksums.load(file, tail)
            schema = orc.ORCFile(file).schema
            several = next((name for name in schema.names if schema.names.count(name) > 1), None)
            if several is not None:
                raise DataError(f"{path}: column {several}: expected one column of that name, found several")
            data_bytes, index_bytes = _bytes_of_columns(file, tail)
    except FileNotFoundError:
        raise DataError(f"{path}: expected an ORC file, found no file by that name") from None
    except OSError as error:
        raise DataError(f"{path}: expected a readable ORC file, found: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise DataError(f"{path}: expected an ORC file, found a truncated or damaged one ({error})") from error
    columns: dict[str, ColumnLayout] = {}
    for name, field in zip(tail.types[0].field_names, schema):
        number = len(columns)
        found = _statistics(tail, number)
        columns[name] = ColumnLayout(
            type=str(field.type),
            rows=tail.rows,
            data_bytes=data_bytes[number],
            index_bytes=index_bytes[number],
            values=None if found is None else found.count,
            minimum=None if found is None else found.minimum,
            maximum=None if found is None else found.maximum,
        )
    return FileLayout(
        path=path,
        file_bytes=tail.file_bytes,
        rows=tail.rows,
        stripe_rows=tuple(stripe.rows for stripe in tail.stripes),
        codec=tail.codec,
        block_bytes=tail.block_bytes,
        row_index_stride=tail.row_index_stride,
        checksums=carried is not None,
        metadata={name: _text(value) for name, value in tail.user_metadata.items() if name != checksums.KEY},
        columns=columns,
        other_bytes=tail.file_bytes - sum(data_bytes) - sum(index_bytes),
    )


def read_layouts(paths: Sequence[str]) -> list[FileLayout]:
    """The layouts of several files, in their order. Raises `DataError` with a line for each file that has none."""

    def read(path: str) -> FileLayout | DataError:
        try:
            return read_layout(path)
        except DataError as error:
            return error

    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        results = list(pool.map(read, paths))
    problems = [str(result) for result in results if isinstance(result, DataError)]
    if problems:
        raise DataError("\n".join(problems))
    return [result for result in results if isinstance(result, FileLayout)]


def sum_columns(layouts: Sequence[FileLayout]) -> dict[str, ColumnLayout]:
    """Each column over all files, in the order of their first appearance."""
    found: dict[str, list[ColumnLayout]] = {}
    for layout in layouts:
        for name, column in layout.columns.items():
            found.setdefault(name, []).append(column)
    return {name: _sum(parts) for name, parts in found.items()}


def _sum(parts: Sequence[ColumnLayout]) -> ColumnLayout:
    types = list(dict.fromkeys(part.type for part in parts))
    with_values = [part for part in parts if part.values != 0]
    minima = [part.minimum for part in with_values if part.minimum is not None]
    maxima = [part.maximum for part in with_values if part.maximum is not None]
    values = [part.values for part in parts if part.values is not None]
    return ColumnLayout(
        type=" or ".join(types),
        rows=sum(part.rows for part in parts),
        data_bytes=sum(part.data_bytes for part in parts),
        index_bytes=sum(part.index_bytes for part in parts),
        values=sum(values) if len(values) == len(parts) else None,
        minimum=min(minima) if minima and len(minima) == len(with_values) else None,
        maximum=max(maxima) if maxima and len(maxima) == len(with_values) else None,
    )


def _bytes_of_columns(file: pa.NativeFile, tail: Tail) -> tuple[list[int], list[int]]:
    """Bytes of data and of indexes of each top-level column with its children."""
    starts = tail.types[0].subtypes
    # Types are numbered in pre-order: children follow their column.
    owner = [-1] * len(tail.types)
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(tail.types)
        owner[start:end] = [number] * (end - start)
    data, index = [0] * len(starts), [0] * len(starts)
    for stripe in range(len(tail.stripes)):
        for stream in read_stripe_footer(file, tail, stripe).streams:
            if owner[stream.column] >= 0:
                (index if stream.is_index else data)[owner[stream.column]] += stream.bytes
    return data, index


def _statistics(tail: Tail, number: int) -> Statistics | None:
    type_id = tail.types[0].subtypes[number]
    # Those of nested types are empty where there is no row index.
    told = tail.column_statistics and (tail.row_index_stride > 0 or not tail.types[type_id].subtypes)
    return tail.column_statistics[type_id] if told else None


def _text(value: bytes) -> str:
    text = value.decode("utf-8", "backslashreplace")
    return text if len(text) <= _LONGEST_METADATA else f"{text[:_LONGEST_METADATA]}… ({len(value)} bytes)"
