"""What users have today, as good as it can be written: `tf.train.Example` records read by `tf.data`."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import tensorflow as tf

TIME = "timestamp"
_ROWS_AT_ONCE = 1024
_NO_IDS = (TIME, "label")
_BYTES, _FLOATS, _INTS = 1, 2, 3  # fields of `tf.train.Feature`


def write(table: pa.Table, path: str, compression: str | None) -> None:
    """One `tf.train.Example` a row: text becomes a bytes feature of one value, a list of integers an integer feature of
    so many. The messages are put together here, which takes a tenth of protobuf's time; some are compared with it."""
    with tf.io.TFRecordWriter(path, compression) as writer:
        for batch in table.to_batches(_ROWS_AT_ONCE):
            columns = [column.to_pylist() for column in batch.columns]
            entries = [_entries(values, field) for values, field in zip(columns, batch.schema)]
            for number, parts in enumerate(zip(*entries)):
                features = b"".join(parts)
                record = b"\n" + _varint(len(features)) + features
                if not number:
                    _check(record, batch.slice(0, 1).to_pylist()[0], batch.schema)
                writer.write(record)


def _entries(values: Sequence[Any], field: pa.Field) -> list[bytes]:
    """The entry of the map of features that each value makes."""
    name = _tagged(1, field.name.encode())

    def entry(kind: int, content: bytes) -> bytes:
        return _tagged(1, name + _tagged(2, _tagged(kind, content)))

    def made(value: Any) -> bytes:
        if pa.types.is_string(field.type):
            return entry(_BYTES, _tagged(1, value.encode()))
        if pa.types.is_floating(field.type):
            return entry(_FLOATS, _tagged(1, struct.pack("<f", value)))
        if pa.types.is_list(field.type):
            # A list without values is a list all the same, with nothing in it.
            return entry(_INTS, _tagged(1, b"".join(map(_varint, value))) if value else b"")
        return entry(_INTS, _tagged(1, _varint(value)))

    if pa.types.is_list(field.type):
        values = list(map(tuple, values))
    distinct = {value: made(value) for value in set(values)}
    return [distinct[value] for value in values]


def _check(record: bytes, row: Mapping[str, Any], schema: pa.Schema) -> None:
    features = {field.name: _feature(row[field.name], field.type) for field in schema}
    expected = tf.train.Example(features=tf.train.Features(feature=features))
    if tf.train.Example.FromString(record) != expected or len(record) != expected.ByteSize():
        raise AssertionError(f"a record that protobuf would write otherwise: {record!r}, expected {expected}")


def _feature(value: Any, kind: pa.DataType) -> tf.train.Feature:
    if pa.types.is_string(kind):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    if pa.types.is_floating(kind):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value if pa.types.is_list(kind) else [value]))


def _tagged(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


@functools.lru_cache(1 << 20)
def _varint(value: int) -> bytes:
    result = bytearray()
    value &= 2**64 - 1
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def hashed(table: pa.Table, buckets: int) -> pa.Table:
    """`table` with every id as the hash of its decimal text."""
    columns = []
    for column, field in _fields(table.combine_chunks()):
        array = column.chunk(0)
        if pa.types.is_list(field.type):
            array = pa.ListArray.from_arrays(array.offsets, _hash(array.values, buckets))
        elif pa.types.is_integer(field.type) and field.name not in _NO_IDS:
            array = _hash(array, buckets)
        columns.append(array)
    return pa.table(columns, schema=table.schema)


def text_dataset(
    path: str,
    schema: pa.Schema,
    names: Sequence[str],
    buckets: int,
    batch_rows: int,
    epochs: int = 1,
    shuffle_rows: int = 0,
    times: tuple[int, int] | None = None,
) -> tf.data.Dataset:
    """Batches of the columns `names` from records of text: lists split, ids hashed, numbers parsed.

    `times`: only rows whose time is in `[first, end)`; of the other rows nothing but the time is parsed.
    """
    records = tf.data.TFRecordDataset(path, buffer_size=1 << 20).repeat(epochs)
    if shuffle_rows:
        records = records.shuffle(shuffle_rows, seed=1)
    parse = _parser(schema, names, buckets)
    batched = records.batch(batch_rows)
    if times is not None:

        def within(batch: tf.Tensor) -> tf.Tensor:
            text = tf.io.parse_example(batch, {TIME: tf.io.FixedLenFeature([], tf.string)})[TIME]
            time = tf.strings.to_number(text, tf.int64)
            return tf.boolean_mask(batch, (time >= times[0]) & (time < times[1]))

        batched = batched.map(within, tf.data.AUTOTUNE).unbatch().batch(batch_rows)
    return batched.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _parser(schema: pa.Schema, names: Sequence[str], buckets: int):
    ids, lists, floats, integers = [], [], [], []
    for name in names:
        kind = schema.field(name).type
        if pa.types.is_list(kind):
            lists.append(name)
        elif pa.types.is_floating(kind):
            floats.append(name)
        else:
            (integers if name in _NO_IDS else ids).append(name)
    wanted = {name: tf.io.FixedLenFeature([], tf.string) for name in names}

    def parse(batch: tf.Tensor) -> Mapping[str, tf.Tensor | tf.RaggedTensor]:
        text = tf.io.parse_example(batch, wanted)
        values: dict[str, tf.Tensor | tf.RaggedTensor] = {}
        # One op over all columns of a kind costs less than one a column.
        if ids:
            together = tf.strings.to_hash_bucket_fast(tf.stack([text[name] for name in ids]), buckets)
            values.update(zip(ids, tf.unstack(together, num=len(ids))))
        for group, dtype in ((floats, tf.float32), (integers, tf.int64)):
            if group:
                numbers = tf.strings.to_number(tf.stack([text[name] for name in group]), dtype)
                values.update(zip(group, tf.unstack(numbers, num=len(group))))
        for name in lists:
            # Text without ids splits into one empty text, which is no id.
            split = tf.strings.split(text[name], ",")
            split = tf.ragged.boolean_mask(split, tf.strings.length(split) > 0)
            values[name] = split.with_flat_values(tf.strings.to_hash_bucket_fast(split.flat_values, buckets))
        return values

    return parse


def _hash(values: pa.Array, buckets: int) -> pa.Array:
    text = values.cast(pa.string()).to_numpy(zero_copy_only=False)
    return pa.array(tf.strings.to_hash_bucket_fast(tf.constant(text, tf.string), buckets).numpy())


def _fields(table: pa.Table | pa.RecordBatch) -> list[tuple[pa.ChunkedArray, pa.Field]]:
    return list(zip(table.columns, table.schema))
