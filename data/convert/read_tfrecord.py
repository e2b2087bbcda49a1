"""Reading TFRecord files of tf.train.Example.

TensorFlow checks the records and parses them column by column. Where its parser refuses a batch, or cannot tell an
absent feature from one with no values, the records are looked at one by one.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.convert.inflated import Inflated
from data.convert.raw import BATCH_BYTES, BATCH_ROWS, Raw
from data.convert.rows import BadRow, shown_names, type_problems
from data.convert.schema import HASHED, SamplesSchema
from data.convert.sources import SourceFile, Unit, damaged
from data.errors import DataError

SAMPLED_RECORDS = 1000
_LEARNT_RECORDS = 100
_FLOAT = "float_list"
_ARROW = {"bytes_list": pa.binary(), "int64_list": pa.int64(), "float_list": pa.float32()}


def tensorflow() -> Any:
    """TensorFlow, quiet, on the CPU, with one thread in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow as tf

    return tf


def features_of(source: SourceFile, records: int = SAMPLED_RECORDS) -> dict[str, str]:
    """The features of the first records, each with the kind of its first values. Raises DataError."""
    tf = tensorflow()
    kinds: dict[str, str] = {}
    try:
        found = next(iter(_dataset(source).batch(records))).numpy()
    except StopIteration:
        _, problem = record_count(source)
        if problem is not None:
            raise damaged(source, ValueError(problem)) from None
        raise DataError(f"{source.path}: expected samples, found an empty file") from None
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        found = _before_damage(tf, source, 0)[:records]
        if not len(found):
            raise damaged(source, ValueError(_first_sentence(error))) from None
    read = 0
    for record in found:
        try:
            features = tf.train.Example.FromString(record).features.feature
        except Exception:  # the proto's own error class depends on protobuf's implementation
            continue
        for name, feature in features.items():
            kind = feature.WhichOneof("kind")
            filled = bool(kind) and len(getattr(feature, kind).value) > 0
            kinds[name] = kinds.get(name) or (kind if filled else "")
        read += 1
    if not read:
        raise DataError(f"{source.path}: expected records of tf.train.Example, found others")
    return kinds


def read(unit: Unit, schema: SamplesSchema, start_row: int) -> Iterator[Raw]:
    """The file's records from `start_row` on, each column a list of values a record."""
    tf = tensorflow()
    source = unit.source
    hashed = {column.source_name for column in schema.columns if column.kind in HASHED}
    parser = _Parser(tf, schema.source_names, hashed, features_of(source, _LEARNT_RECORDS))
    row, read_bytes, rows = start_row, 0, 64
    damage: str | None = None
    while damage is None:
        # A fresh start only after the first, small batch, which tells how large records are.
        batches = iter(_dataset(source).skip(row).batch(rows))
        again = False
        while not again:
            try:
                records = next(batches).numpy()
            except StopIteration:
                # A file that is cut in a record's head ends for TensorFlow as a whole one does.
                count, problem = record_count(source)
                if problem is None and count == row:
                    return
                damage = str(damaged(source, ValueError(problem or f"{count} records, of which {row} can be read")))
                break
            except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
                damage = str(damaged(source, ValueError(_first_sentence(error))))
                records = _before_damage(tf, source, row)
            if len(records):
                read_bytes += sum(map(len, records))
                yield _raw(parser, records, row, min(read_bytes, source.bytes))
                row += len(records)
            if damage is not None:
                break
            if rows == 64:
                rows = int(min(BATCH_ROWS, max(16, BATCH_BYTES * (row - start_row) / max(1, read_bytes))))
                again = rows != 64
    nothing = pa.RecordBatch.from_pydict({})
    yield Raw(nothing, np.zeros(0, np.int64), row, source.bytes, damage=damage)


def record_count(source: SourceFile) -> tuple[int, str | None]:
    """How many whole records the file is framed into, and what is wrong with its end. Nothing is decoded."""
    count, position = 0, 0
    if not source.gzip:
        with open(source.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            while (end := position + int.from_bytes(data[position : position + 8], "little") + 16) <= len(data):
                count, position = count + 1, end
            whole = position == len(data)
        return count, None if whole else f"a record cut off at byte {position:,}"
    head, left = b"", 0  # of a record: its first 8 bytes so far, or the bytes to go
    try:
        with open(source.path, "rb") as file:
            inflated = Inflated(file)
            while block := inflated.read():
                at = 0
                while at < len(block):
                    step = min(left or 8 - len(head), len(block) - at)
                    if left:
                        left -= step
                        count += not left
                    else:
                        head += block[at : at + step]
                        if len(head) == 8:
                            head, left = b"", int.from_bytes(head, "little") + 8
                    at += step
    except (EOFError, zlib.error) as error:
        return count, str(error)
    return count, "a record cut off at the end" if head or left else None


def _raw(parser: _Parser, records: np.ndarray, row: int, read_bytes: int) -> Raw:
    batch, wrong = parser.parse(records)
    rows = np.arange(row, row + len(records))
    bad = [replace(problem, row=row + problem.row) for problem in wrong]
    if bad:
        rows = np.delete(rows, [problem.row for problem in wrong])
    return Raw(batch, rows, row + len(records), read_bytes, bad)


class _Parser:
    """Parses records for some features, whose kinds it learns as they come."""

    def __init__(self, tf: Any, names: Sequence[str], hashed: Set[str], kinds: dict[str, str]):
        self._tf = tf
        self._names = list(names)
        self._hashed = hashed
        self._kinds = {name: kinds.get(name, "") for name in names}

    def _spec(self) -> dict[str, Any]:
        tf = self._tf
        dtypes = {"": tf.string, "bytes_list": tf.string, "int64_list": tf.int64, "float_list": tf.float32}
        return {
            name: tf.io.RaggedFeature(dtypes[kind], row_splits_dtype=tf.int64) for name, kind in self._kinds.items()
        }

    def parse(self, records: np.ndarray) -> tuple[pa.RecordBatch, list[BadRow]]:
        """One list column for each feature, null where it is absent; records, by place, that are left out of it."""
        try:
            parsed = self._tf.io.parse_example(records, self._spec())
        except (self._tf.errors.InvalidArgumentError, UnicodeDecodeError):  # its text may hold a record's bytes
            return self._one_by_one(records)
        columns = []
        present = _Present(self._tf, records)
        for name in self._names:
            values, splits = parsed[name].values.numpy(), parsed[name].row_splits.numpy()
            empty = np.flatnonzero(np.diff(splits) == 0)
            absent = np.zeros(len(records), bool)
            if len(empty):
                absent[empty] = ~present.of(name, empty)
            columns.append(
                pa.ListArray.from_arrays(
                    pa.array(splits, pa.int32()),
                    pa.array(values, _ARROW[self._kinds[name] or "bytes_list"]),
                    mask=pa.array(absent) if absent.any() else None,
                )
            )
        return pa.RecordBatch.from_arrays(columns, names=self._names), []

    def _one_by_one(self, records: np.ndarray) -> tuple[pa.RecordBatch, list[BadRow]]:
        wrong: list[BadRow] = []
        found: dict[str, list[Any]] = {name: [] for name in self._names}
        kinds: dict[str, set[str]] = {name: set() for name in self._names}
        for place, record in enumerate(records):
            try:
                features = self._tf.train.Example.FromString(record).features.feature
            except Exception as error:  # the proto's own error class depends on protobuf's implementation
                words = " ".join(str(error).split())[:80]
                wrong.append(BadRow(place, "", "a tf.train.Example", f"other bytes ({words})"))
                continue
            values: dict[str, tuple[str, list[Any] | None]] = {}
            for name in self._names:
                kind = features[name].WhichOneof("kind") or "" if name in features else ""
                row = None if name not in features else list(getattr(features[name], kind).value) if kind else []
                values[name] = kind if row else "", row
            # Among texts, a float would be hashed as its digits, which are not the same everywhere.
            floats = next((name for name in self._names if name in self._hashed and values[name][0] == _FLOAT), None)
            if floats is not None:
                wrong.append(BadRow(place, floats, "texts or integers", f"floats, {values[floats][1]!r:.40}"))
                continue
            for name, (kind, row) in values.items():
                found[name].append(row)
                kinds[name] |= {kind} - {""}
        for name in self._names:  # so that the next batch need not be taken one by one
            if len(kinds[name]) == 1 and not self._kinds[name]:
                self._kinds[name] = next(iter(kinds[name]))
        return pa.RecordBatch.from_arrays(
            [_of_kinds(found[name], kinds[name]) for name in self._names], names=self._names
        ), wrong


def _of_kinds(rows: list[list[Any] | None], kinds: set[str]) -> pa.Array:
    """Rows of values of one kind, or of several kinds as texts."""
    if len(kinds) <= 1:
        return pa.array(rows, pa.list_(_ARROW[next(iter(kinds)) if kinds else "bytes_list"]))
    as_texts = [
        None if row is None else [value if isinstance(value, bytes) else str(value).encode() for value in row]
        for row in rows
    ]
    return pa.array(as_texts, pa.list_(pa.binary()))


class _Present:
    """Which records hold a feature, with values or without."""

    def __init__(self, tf: Any, records: np.ndarray):
        self._tf = tf
        self._records = records
        self._array: pa.Array | None = None
        self._features: dict[int, Any] = {}

    def of(self, name: str, places: np.ndarray) -> np.ndarray:
        """bool `[places]`. A feature's name stands in its record's bytes; where it does, the record is parsed."""
        key = name.encode()
        if self._array is None:
            self._array = pa.array(self._records, pa.binary())
        maybe = pc.match_substring(self._array.take(pa.array(places)), key).to_numpy(zero_copy_only=False)
        result = np.zeros(len(places), bool)
        for index in np.flatnonzero(maybe):
            result[index] = name in self._parsed(int(places[index]))
        return result

    def _parsed(self, place: int) -> Any:
        if place not in self._features:
            self._features[place] = self._tf.train.Example.FromString(self._records[place]).features.feature
        return self._features[place]


def _dataset(source: SourceFile) -> Any:
    tf = tensorflow()
    # One thread, one process: several processes share the cores.
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    dataset = tf.data.TFRecordDataset(os.fsencode(source.path), "GZIP" if source.gzip else "", buffer_size=1 << 20)
    return dataset.with_options(options)


def _before_damage(tf: Any, source: SourceFile, row: int) -> np.ndarray:
    """The whole records from `row` on."""
    records = []
    try:
        for record in _dataset(source).skip(row):
            records.append(record.numpy())
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
        pass
    result = np.empty(len(records), object)
    result[:] = records
    return result


def _first_sentence(error: Exception) -> str:
    text = getattr(error, "message", str(error))
    text = text.partition("} ")[2] or text
    return text.partition(" [Op:")[0]


def feature_problems(found: Sequence[tuple[SourceFile, dict[str, str]]], schema: SamplesSchema) -> list[str]:
    """A line for each column that no file's first records hold, and for each file where its kind never fits."""
    names = sorted({name for _, kinds in found for name in kinds})
    problems = [
        f"{found[0][0].path}: column {name}: expected a feature of that name in the first {SAMPLED_RECORDS:,} records, "
        f"found only {shown_names(names)}"
        for name in schema.source_names
        if found and name not in names
    ]
    for source, kinds in found:
        fields = [(name, pa.list_(_ARROW[kind])) for name, kind in kinds.items() if kind]
        columns = [column for column in schema.columns if kinds.get(column.source_name)]
        problems += type_problems(pa.schema(fields), columns, source.path)
    return problems
