"""Reading CSV and TSV sources: every column as bytes, told apart by pyarrow's parser."""

from __future__ import annotations

import csv
import gzip
import io
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from data.convert.raw import Raw
from data.convert.rows import BadRow
from data.convert.schema import SamplesSchema, Source
from data.convert.sources import SourceFile, Unit, damaged
from data.errors import DataError

# The parser holds several blocks at once, also ahead; no line may be longer than one.
BLOCK_BYTES = 1 << 20


def header(source: SourceFile, settings: Source) -> list[str]:
    """The names of the file's columns. Raises DataError."""
    if settings.column_names is not None:
        return list(settings.column_names)
    try:
        with pa.OSFile(source.path) as file:
            reader = arrow_csv.open_csv(
                _WholeLines(pa.CompressedInputStream(file, "gzip")) if source.gzip else file,
                arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
                _parsing(source, settings, lambda row: "skip"),
                arrow_csv.ConvertOptions(check_utf8=False),
            )
            return reader.schema.names
    except (pa.ArrowException, OSError) as error:
        raise damaged(source, error) from None


def read(unit: Unit, schema: SamplesSchema, start_row: int) -> Iterator[Raw]:
    """The source's rows from `start_row` on. A row of too few or too many columns is a bad row."""
    source, settings = unit.source, schema.source
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

    conversion = arrow_csv.ConvertOptions(
        check_utf8=False,
        column_types={name: pa.binary() for name in names},
        null_values=settings.null_texts,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        include_columns=schema.source_names,
    )
    reading = arrow_csv.ReadOptions(
        use_threads=False, block_size=BLOCK_BYTES, column_names=settings.column_names if not settings.header else None
    )
    row = 0
    nothing = pa.RecordBatch.from_pydict({})
    try:
        with pa.OSFile(source.path) as file:
            stream = _WholeLines(pa.CompressedInputStream(file, "gzip")) if source.gzip else file
            reader = arrow_csv.open_csv(stream, reading, _parsing(source, settings, note), conversion)
            for batch in reader:
                rows = _numbered(row, batch.num_rows, [problem.number - 1 - settings.header for problem in [*broken]])
                if not len(rows):
                    continue
                row = int(rows[-1]) + 1
                fresh = int(np.searchsorted(rows, start_row))
                bad = told(row)
                if fresh < len(rows) or bad:
                    yield Raw(batch.slice(fresh), rows[fresh:], row, file.tell(), bad)
            damage = stream.damage if isinstance(stream, _WholeLines) else None
            rest = told(None)
            if rest:
                yield Raw(nothing, np.zeros(0, np.int64), max(p.row for p in rest) + 1, source.bytes, rest)
            if damage is not None:
                row = max([row, start_row, *(problem.row + 1 for problem in rest)])
                yield Raw(nothing, np.zeros(0, np.int64), row, source.bytes, damage=str(damaged(source, damage)))
    except (pa.ArrowException, OSError) as error:
        yield Raw(nothing, np.zeros(0, np.int64), max(row, start_row), 0, damage=str(damaged(source, error)))


class _WholeLines(io.RawIOBase):
    """A compressed stream up to its damage, if any, or rather to the end of the last line before it.

    pyarrow's parser reads ahead, and an error there would cost rows before it, now more, now fewer.
    """

    def __init__(self, stream: pa.NativeFile):
        self._stream = stream
        self._rest = b""  # of a line whose end is not read yet
        self._ended = False
        self.damage: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        wanted = size if size >= 0 else 2**62
        while not self._ended and not (len(self._rest) >= wanted or b"\n" in self._rest):
            try:
                block = self._stream.read(max(1 << 16, min(wanted, 1 << 22)))
            except (OSError, pa.ArrowException) as error:
                self.damage, self._ended = error, True
                self._rest = self._rest[: self._rest.rfind(b"\n") + 1]
                break
            self._rest += block
            self._ended = not block
        # A line longer than what was asked for is handed out in pieces.
        end = len(self._rest) if self._ended else self._rest.rfind(b"\n") + 1 or len(self._rest)
        end = min(end, wanted)
        given, self._rest = self._rest[:end], self._rest[end:]
        return given


def line_of(source: SourceFile, settings: Source, row: int) -> int | None:
    """The line, from 1, on which data row `row`, from 0, ends; None where it cannot be told."""
    opener: Any = gzip.open if source.gzip else open
    try:
        with opener(source.path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=_separator(source, settings))
            left = row + settings.header
            for fields in reader:
                if not fields:
                    continue  # an empty line is no row
                if left == 0:
                    return reader.line_num
                left -= 1
    except (OSError, EOFError, csv.Error):
        return None
    return None


def _numbered(row: int, count: int, broken: list[int]) -> np.ndarray:
    """Numbers of `count` whole rows from `row` on, with the broken ones' numbers left out."""
    candidates = np.arange(row, row + count + len(broken))
    return candidates[~np.isin(candidates, broken)][:count]


def _separator(source: SourceFile, settings: Source) -> str:
    return settings.separator or ("\t" if source.format == "tsv" else ",")


def _parsing(source: SourceFile, settings: Source, handler: Any) -> arrow_csv.ParseOptions:
    return arrow_csv.ParseOptions(
        delimiter=_separator(source, settings), newlines_in_values=True, invalid_row_handler=handler
    )


def check_names(source: SourceFile, names: list[str]) -> None:
    """Raises DataError for a header that names a column twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{source.path}: expected each column once in the header, found {', '.join(twice)} again")
