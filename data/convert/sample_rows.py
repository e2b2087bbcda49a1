"""A few rows from several places of source files, as plain values."""

from __future__ import annotations

import io
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from data.convert.read_text import csv_rows
from data.convert.read_tfrecord import tensorflow
from data.convert.sources import SourceFile, damaged, opened
from data.convert.text_stream import TextStream
from data.errors import DataError

MOST_FILES = 12
ROWS = 2400  # of all files together
PLACES = 4  # in a file
_TEXT_BYTES = 1 << 18
_MOST_LINE_BYTES = 64 << 20
# A TFRecord file has no index: so many records are stepped over to find places in it.
_STEPPED_RECORDS = 100_000


@dataclass
class Column:
    """Sampled values of one source column."""

    name: str
    kind: pa.DataType | None  # of the source, None for text files
    values: list[Any] = field(default_factory=list)  # without the missing ones
    missing: int = 0

    @property
    def rows(self) -> int:
        """Rows that were looked at."""
        return len(self.values) + self.missing

    def add(self, value: Any) -> None:
        """Takes in a value."""
        if value is None:
            self.missing += 1
        else:
            self.values.append(value)


@dataclass(frozen=True)
class Sample:
    """What was found in the sources."""

    format: str
    separator: str | None  # of text files, where it is not the format's own
    header: bool
    columns: list[Column]
    rows: int
    files: int
    where: str  # in words


def take(sources: Sequence[SourceFile]) -> Sample:
    """Rows of up to `MOST_FILES` files spread over `sources`. Raises DataError."""
    formats = {source.format for source in sources}
    if len(formats) > 1:
        raise DataError(f"{sources[0].path}: expected sources of one format, found {', '.join(sorted(formats))}")
    picked = [sources[i] for i in np.unique(np.linspace(0, len(sources) - 1, MOST_FILES).astype(int))]
    rows = ROWS // len(picked)
    if formats & {"csv", "tsv"}:
        return _of_texts(picked, rows)
    reader = _tfrecord if "tfrecord" in formats else _columnar
    columns: dict[str, Column] = {}
    count = 0
    for source in picked:
        for names, kinds, values in reader(source, rows):
            for name in names:
                if name not in columns:
                    columns[name] = Column(name, kinds.get(name), missing=count)
            for name, column in columns.items():
                column.add(values.get(name))
            count += 1
    if not count:
        raise DataError(f"{sources[0].path}: expected rows, found none")
    where = "the first records" if picked[0].gzip else "several places"
    return Sample(picked[0].format, None, True, list(columns.values()), count, len(picked), where)


Row = tuple[Iterable[str], dict[str, pa.DataType], dict[str, Any]]


def _columnar(source: SourceFile, rows: int) -> Iterator[Row]:
    try:
        for batch in _batches(source, rows):
            kinds = {found.name: found.type for found in batch.schema}
            for values in batch.to_pylist():
                yield kinds, kinds, values
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(source, error) from None


def _batches(source: SourceFile, rows: int) -> Iterator[pa.RecordBatch]:
    """About `rows` rows: the first ones of some row groups, or rows spread over some stripes."""
    if source.format == "parquet":
        with opened(source.path) as whole, pq.ParquetFile(whole) as file:
            groups = _spread(file.metadata.num_row_groups, PLACES)
            for group in groups:
                yield from itertools.islice(file.iter_batches(-(-rows // len(groups)), row_groups=[group]), 1)
        return
    reader = orc.ORCFile(opened(source.path))
    stripes = _spread(reader.nstripes, PLACES)
    for stripe in stripes:
        batch = reader.read_stripe(stripe)
        yield batch.take(pa.array(_spread(batch.num_rows, -(-rows // len(stripes))), pa.int64()))


def _spread(count: int, places: int) -> list[int]:
    return np.unique(np.linspace(0, count - 1, places).astype(int)).tolist() if count else []


def _tfrecord(source: SourceFile, rows: int) -> Iterator[Row]:
    tf = tensorflow()
    for record in _records(tf, source, rows):
        try:
            features = tf.train.Example.FromString(record).features.feature
        except Exception:  # the proto's own error class depends on protobuf's implementation
            raise DataError(f"{source.path}: expected records of tf.train.Example, found others") from None
        values: dict[str, Any] = {}
        kinds = {}
        for name, feature in features.items():
            kind = feature.WhichOneof("kind")
            values[name] = list(getattr(feature, kind).value) if kind else []
            if kind:
                item = {"bytes_list": pa.binary(), "int64_list": pa.int64(), "float_list": pa.float32()}[kind]
                kinds[name] = pa.list_(item)
        yield sorted(features), kinds, values


def _records(tf: Any, source: SourceFile, rows: int) -> Iterator[bytes]:
    if source.gzip:
        dataset = tf.data.TFRecordDataset(os.fsencode(source.path), "GZIP").take(rows)
        try:
            for record in dataset:
                yield record.numpy()
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            raise damaged(source, error) from None
        return
    with open(source.path, "rb") as file:
        places: list[tuple[int, int]] = []
        position = 0
        while len(places) < _STEPPED_RECORDS:
            file.seek(position)
            head = file.read(8)
            if len(head) < 8:
                break
            length = int.from_bytes(head, "little")
            if position + length + 16 > source.bytes:
                break
            places.append((position + 12, length))
            position += length + 16
        for index in _spread(len(places), rows):
            start, length = places[index]
            file.seek(start)
            yield file.read(length)


def _of_texts(sources: Sequence[SourceFile], rows: int) -> Sample:
    columns: list[Column] = []
    separator, header, count = ",", True, 0
    for source in sources:
        beginning, *others = _pieces(source)
        if not columns:
            separator = _separator(beginning, source)
            first = next(_fields(beginning, separator), None)
            if not first:
                raise DataError(f"{source.path}: expected a first line with the names of columns, found none")
            header = _is_header(first)
            names = first if header else [f"column_{number}" for number in range(len(first))]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise DataError(f"{source.path}: expected each column once in the header, found {twice[0]!r} again")
            columns = [Column(name, None) for name in names]
        for number, text in enumerate([beginning, *others]):
            lines = _fields(text, separator)
            if header and number == 0:
                next(lines, None)
            fitting = (fields for fields in lines if len(fields) == len(columns))
            for fields in itertools.islice(fitting, max(1, rows // (1 + len(others)))):
                for column, value in zip(columns, fields):
                    column.add(None if value == "\\N" else value)
                count += 1
    if not count:
        raise DataError(f"{sources[0].path}: expected rows, found none")
    own = "\t" if sources[0].format == "tsv" else ","
    where = "their beginning" if sources[0].gzip else "several places"
    return Sample(
        sources[0].format, separator if separator != own else None, header, columns, count, len(sources), where
    )


def _fields(text: str, separator: str) -> Iterator[list[str]]:
    """Rows of a text that may end, or begin, in the middle of one."""
    return csv_rows(io.StringIO(text, newline=None), separator)


def _pieces(source: SourceFile) -> list[str]:
    """The beginning and pieces from further on, each of whole lines."""
    with TextStream(source, check=False) as stream:
        size = _TEXT_BYTES * (PLACES if source.gzip else 1)
        data = stream.read(size)
        while data.count(b"\n") < 2 and (more := stream.read(size)):  # a line longer than that
            data += more
        if stream.damage is not None and data.count(b"\n") < 2:
            raise damaged(source, stream.damage)
        pieces = [_whole_lines(data, not stream.read(1))]
    if source.gzip:
        return pieces
    with open(source.path, "rb") as file:
        for place in range(1, PLACES):
            start = source.bytes * place // PLACES
            if start > len(data):
                file.seek(start)
                file.readline(_MOST_LINE_BYTES)
                pieces.append(_whole_lines(file.read(_TEXT_BYTES), False))
    return pieces


def _whole_lines(data: bytes, is_all: bool) -> str:
    end = len(data) if is_all else (data.rfind(b"\n") + 1 or data.rfind(b"\r") + 1)
    return data[:end].decode("utf-8", "surrogateescape")


def _separator(text: str, source: SourceFile) -> str:
    """The character that cuts all lines into the same number of columns, and into most."""
    if source.format == "tsv":
        return "\t"
    best = (1, 0.0, ",")
    for candidate in (",", "\t", ";", "|"):
        counts = Counter(len(fields) for fields in itertools.islice(_fields(text, candidate), 50))
        if counts:
            columns, lines = counts.most_common(1)[0]
            share = lines / sum(counts.values())
            if columns > 1 and share > 0.9:
                best = max(best, (columns, share, candidate))
    return best[2]


def _is_header(fields: list[str]) -> bool:
    """Whether a first line holds names: none of them a number or empty."""
    return all(text and not text.replace(".", "").replace("-", "").isdigit() for text in fields)
