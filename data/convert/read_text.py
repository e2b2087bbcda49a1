"""Reading CSV and TSV sources: every column as bytes, told apart by pyarrow's parser."""

from __future__ import annotations

import csv
import gzip
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from data.convert.casts import content
from data.convert.raw import Raw
from data.convert.rows import BadRow
from data.convert.schema import SamplesSchema, Source
from data.convert.sources import SourceFile, Unit, damaged
from data.convert.text_stream import NotUtf8, TextStream
from data.errors import DataError

# The parser holds several blocks at once, also ahead. No line may be longer than one, so blocks grow for longer lines.
BLOCK_BYTES = 1 << 20
_GROWTH = (1, 8, 64)
# Each byte a character: no bytes are wrong in it, and it can be undone.
_BYTE_BY_BYTE = "latin-1"
_NOTHING = pa.RecordBatch.from_pydict({})


class _TooLong(Exception):
    """A line that is longer than a block."""


def header(source: SourceFile, settings: Source) -> list[str]:
    """The names of the file's columns. Raises DataError."""
    if settings.column_names is not None:
        return list(settings.column_names)
    conversion = arrow_csv.ConvertOptions(check_utf8=False)
    damage: Exception = EOFError()
    for growth in _GROWTH:
        reading = arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES * growth, encoding=_BYTE_BY_BYTE)
        try:
            with TextStream(source, check=False) as stream:
                reader = arrow_csv.open_csv(stream, reading, _parsing(source, settings, lambda row: "skip"), conversion)
                # Other bytes than UTF-8 are in no samples file.
                return [name.encode(_BYTE_BY_BYTE).decode("utf-8", "surrogateescape") for name in reader.schema.names]
        except (pa.ArrowException, OSError) as error:
            damage = stream.damage or error
            if stream.damage is not None:
                break
    if "Empty CSV" in str(damage):
        raise DataError(f"{source.path}: expected a first line with the names of columns, found none")
    raise damaged(source, damage)


def read(unit: Unit, schema: SamplesSchema, start_row: int) -> Iterator[Raw]:
    """The source's rows from `start_row` on. A row of too few or too many columns is a bad row."""
    row, growth, check = start_row, 0, True
    while True:
        try:
            for raw in _rows(unit.source, schema, row, BLOCK_BYTES * _GROWTH[growth], check):
                row = raw.next_row
                yield raw
            return
        except NotUtf8:  # the parser could not tell us of a bad row with such bytes
            check = False
        except _TooLong:
            growth += 1
            if growth == len(_GROWTH):
                most = BLOCK_BYTES * _GROWTH[-1] >> 20
                problem = (
                    f"{unit.source.path}: expected lines of at most {most} MB, found a longer one behind row {row}"
                )
                yield _end(unit.source, row, problem)
                return


def _rows(source: SourceFile, schema: SamplesSchema, start_row: int, block_bytes: int, check: bool) -> Iterator[Raw]:
    """The rows, from `start_row` on; with `check` only as long as they are UTF-8, without it whatever their bytes."""
    settings = schema.source
    names = header(source, settings)
    broken: deque[Any] = deque()  # grows while pyarrow reads ahead

    def note(row: Any) -> str:
        broken.append(row)
        return "skip"

    def told(before: int | None) -> list[BadRow]:
        """The broken rows with numbers below `before`, taken from `broken`."""
        first = 1 + settings.header
        rows = []
        while broken and (before is None or broken[0].number - first < before):
            row = broken.popleft()
            problem = BadRow(row.number - first, "", f"{row.expected_columns} columns", str(row.actual_columns))
            if problem.row >= start_row:
                rows.append(problem)
        return rows

    # What stands in the file, as the parser is told it.
    outer = str if check else _byte_by_byte
    conversion = arrow_csv.ConvertOptions(
        check_utf8=False,
        column_types={outer(name): pa.binary() for name in schema.source_names},
        null_values=[outer(text) for text in settings.null_texts],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        include_columns=[outer(name) for name in schema.source_names],
    )
    reading = arrow_csv.ReadOptions(
        use_threads=False,
        block_size=block_bytes,
        encoding="utf8" if check else _BYTE_BY_BYTE,
        column_names=[outer(name) for name in names] if not settings.header else None,
    )
    row = 0
    with TextStream(source, check) as stream:
        try:
            reader = arrow_csv.open_csv(stream, reading, _parsing(source, settings, note), conversion)
            for batch in reader:
                rows = _numbered(row, batch.num_rows, [problem.number - 1 - settings.header for problem in [*broken]])
                if not len(rows):
                    continue
                row = int(rows[-1]) + 1
                fresh = int(np.searchsorted(rows, start_row))
                bad = told(row)
                if fresh < len(rows) or bad:
                    batch = batch.slice(fresh)
                    if not check:
                        columns = [_undone(column) for column in batch.columns]
                        batch = pa.RecordBatch.from_arrays(columns, names=schema.source_names)
                    yield Raw(batch, rows[fresh:], row, min(stream.file_bytes, source.bytes), bad)
        except (pa.ArrowException, OSError) as error:
            # Of a header longer than a block it finds nothing.
            if "straddl" in str(error) or "Empty CSV" in str(error):
                raise _TooLong from error
            if stream.damage is None:
                yield _end(source, max(row, start_row), str(damaged(source, error)))
                return
        rest = told(None)
        if rest:
            yield Raw(_NOTHING, np.zeros(0, np.int64), max(p.row for p in rest) + 1, source.bytes, rest)
        if stream.damage is not None:
            row = max([row, start_row, *(problem.row + 1 for problem in rest)])
            yield _end(source, row, str(damaged(source, stream.damage)))


def _end(source: SourceFile, row: int, damage: str) -> Raw:
    return Raw(_NOTHING, np.zeros(0, np.int64), row, source.bytes, damage=damage)


def line_of(source: SourceFile, settings: Source, row: int) -> int | None:
    """The line, from 1, on which data row `row`, from 0, ends; None where it cannot be told."""
    opener: Any = gzip.open if source.gzip else open
    try:
        with opener(source.path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            reader = csv_rows(file, _separator(source, settings))
            left = row + settings.header
            for fields in reader:
                if not fields:
                    continue  # an empty line is no row
                if left == 0:
                    return int(reader.line_num)
                left -= 1
    except (OSError, EOFError, csv.Error):
        return None
    return None


def csv_rows(lines: Iterable[str], separator: str) -> Any:
    """Python's reader of CSV, for fields of any size."""
    csv.field_size_limit(max(csv.field_size_limit(), BLOCK_BYTES * _GROWTH[-1]))
    return csv.reader(lines, delimiter=separator)


def _numbered(row: int, count: int, broken: list[int]) -> np.ndarray:
    """Numbers of `count` whole rows from `row` on, with the broken ones' numbers left out."""
    candidates = np.arange(row, row + count + len(broken))
    return candidates[~np.isin(candidates, broken)][:count]


def _byte_by_byte(text: str) -> str:
    """A text as it reads when each of its bytes is taken for a character."""
    return text.encode("utf-8", "surrogateescape").decode(_BYTE_BY_BYTE)


def _undone(array: pa.Array) -> pa.Array:
    """The bytes of texts that were read byte by byte: characters from U+0080 on are two bytes here, one in the file."""
    null = array.is_null().to_numpy(zero_copy_only=False)
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    data = np.frombuffer(content(array), np.uint8)
    second = (data & 0xC0) == 0x80
    first = np.flatnonzero(second) - 1
    narrow = data.copy()
    narrow[first] = (data[first] & 3) << 6 | data[first + 1] & 0x3F
    before = np.concatenate([[0], np.cumsum(~second)]).astype(np.int32)
    buffers = [pa.array(~null).buffers()[1], pa.py_buffer(before[offsets - offsets[0]]), pa.py_buffer(narrow[~second])]
    return pa.Array.from_buffers(pa.binary(), len(array), buffers)


def _separator(source: SourceFile, settings: Source) -> str:
    return settings.separator or ("\t" if source.format == "tsv" else ",")


def _parsing(source: SourceFile, settings: Source, handler: Any) -> arrow_csv.ParseOptions:
    return arrow_csv.ParseOptions(
        delimiter=_separator(source, settings), newlines_in_values=True, invalid_row_handler=handler
    )


def check_names(source: SourceFile, names: list[str], used: Iterable[str]) -> None:
    """Raises DataError for a header that names a column twice that is read."""
    twice = [name for name in used if names.count(name) > 1]
    if twice:
        raise DataError(f"{source.path}: expected each column once in the header, found {', '.join(twice)} again")
