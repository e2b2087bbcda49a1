"""Reading TFRecord files of tf.train.Example.

TensorFlow checks the records and parses them column by column. Where its parser refuses a batch, or cannot tell an
absent feature from one with no values, the records are looked at one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.convert.raw import BATCH_BYTES, BATCH_ROWS, Raw
from data.convert.rows import BadRow
from data.convert.schema import SamplesSchema
from data.convert.sources import SourceFile, Unit, damaged
from data.errors import DataError

SAMPLED_RECORDS = 1000
_LEARNT_RECORDS = 100
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
        return kinds
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        found = _before_damage(tf, source, 0)[:records]
        if not len(found):
            raise damaged(source, ValueError(_first_sentence(error))) from None
    for record in found:
        try:
            features = tf.train.Example.FromString(record).features.feature
        except Exception:  # the proto's own error class depends on protobuf's implementation
            continue
        for name, feature in features.items():
            kind = feature.WhichOneof("kind")
            filled = bool(kind) and len(getattr(feature, kind).value) > 0
            kinds[name] = kinds.get(name) or (kind if filled else "")
    return kinds


def read(unit: Unit, schema: SamplesSchema, start_row: int) -> Iterator[Raw]:
    """The file's records from `start_row` on, each column a list of values a record."""
    tf = tensorflow()
    source = unit.source
    parser = _Parser(tf, schema.source_names, features_of(source, _LEARNT_RECORDS))
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
                return
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


def _raw(parser: _Parser, records: np.ndarray, row: int, read_bytes: int) -> Raw:
    batch, wrong = parser.parse(records)
    rows = np.arange(row, row + len(records))
    bad = [BadRow(row + place, "", "a tf.train.Example", f"other bytes ({words})") for place, words in wrong]
    if bad:
        rows = np.delete(rows, [place for place, _ in wrong])
    return Raw(batch, rows, row + len(records), read_bytes, bad)


class _Parser:
    """Parses records for some features, whose kinds it learns as they come."""

    def __init__(self, tf: Any, names: Sequence[str], kinds: dict[str, str]):
        self._tf = tf
        self._names = list(names)
        self._kinds = {name: kinds.get(name, "") for name in names}

    def _spec(self) -> dict[str, Any]:
        tf = self._tf
        dtypes = {"": tf.string, "bytes_list": tf.string, "int64_list": tf.int64, "float_list": tf.float32}
        return {
            name: tf.io.RaggedFeature(dtypes[kind], row_splits_dtype=tf.int64) for name, kind in self._kinds.items()
        }

    def parse(self, records: np.ndarray) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
        """One list column for each feature, null where it is absent; places of what is no Example, and why."""
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

    def _one_by_one(self, records: np.ndarray) -> tuple[pa.RecordBatch, list[tuple[int, str]]]:
        wrong: list[tuple[int, str]] = []
        found: dict[str, list[Any]] = {name: [] for name in self._names}
        kinds: dict[str, set[str]] = {name: set() for name in self._names}
        for place, record in enumerate(records):
            try:
                features = self._tf.train.Example.FromString(record).features.feature
            except Exception as error:  # the proto's own error class depends on protobuf's implementation
                wrong.append((place, " ".join(str(error).split())[:80]))
                continue
            for name in self._names:
                if name not in features:
                    found[name].append(None)
                    continue
                kind = features[name].WhichOneof("kind")
                values = list(getattr(features[name], kind).value) if kind else []
                if values:
                    kinds[name].add(kind)
                found[name].append(values)
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
    dataset = tf.data.TFRecordDataset(source.path, "GZIP" if source.gzip else "", buffer_size=1 << 20)
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


def check_features(found: Sequence[dict[str, str]], schema: SamplesSchema, where: str) -> None:
    """Raises DataError for a column that no source file's first records hold."""
    names = {name for kinds in found for name in kinds}
    problems = [
        f"{where}: column {name}: expected a feature of that name in the first {SAMPLED_RECORDS:,} records, "
        f"found only {', '.join(sorted(names)[:20])}"
        for name in schema.source_names
        if name not in names
    ]
    if problems:
        raise DataError("\n".join(problems))
