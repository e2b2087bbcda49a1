"""How batches travel from the reader process to TensorFlow: one Arrow row is one batch.

Every column of the stream is a list whose single entry holds a whole batch, so that lists of any length
travel without padding. A scalar column takes one column of the stream (`[rows]`); a list column takes two:
its values `[values]` int64 and its row splits `[rows + 1]` int64. Sampling adds two scalar columns, weight and
offset. The last column is the trailer, int64 `[4 + columns]`: batch number (counted from 0 over the whole stream),
rows, epoch, rows lost, then of each declared column the nulls that were filled. The receiver must check the trailer:
tensorflow-io's client takes a message that was cut short for complete, and its end, which is the trailer, is then
memory that was never written.
"""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa

from data.read.batches import Batch
from data.read.part_reader import output_schema
from data.read.read_spec import ReadSpec

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Sent after the last batch, and only then: a connection that ends without it is an error at the receiver."""

MESSAGE_BYTES_MAX = 2**31 - 2**16
"""tensorflow-io's client reads a message by one `recv`, which gives less than asked for beyond this."""


def stream_types(spec: ReadSpec) -> list[pa.DataType]:
    """The element type of each column of the stream, the trailer included."""
    types: list[pa.DataType] = []
    for field in output_schema(spec):
        types += [pa.int64(), pa.int64()] if pa.types.is_list(field.type) else [field.type]
    return [*types, pa.int64()]


def stream_schema(spec: ReadSpec) -> pa.Schema:
    """The Arrow schema of the stream. Columns are found by position; the names are only numbers."""
    return pa.schema([(str(i), pa.list_(kind)) for i, kind in enumerate(stream_types(spec))])


def to_message(batch: Batch, schema: pa.Schema, number: int) -> pa.Buffer:
    """Batch `number` as one message of the stream. Raises `ValueError` when it is too large for the
    receiver."""
    flat: list[pa.Array] = []
    for array in batch.rows.columns:
        if pa.types.is_list(array.type):
            splits = array.offsets.to_numpy().astype(np.int64)
            flat += [array.flatten(), pa.array(splits - splits[0])]
        else:
            flat.append(array)
    rows = batch.rows.num_rows
    flat.append(pa.array([number, rows, batch.epoch, *batch.counts.tolist()], pa.int64()))
    entries = [
        pa.Array.from_buffers(field.type, 1, [None, _one_entry(len(a))], children=[a]) for a, field in zip(flat, schema)
    ]
    message = pa.RecordBatch.from_arrays(entries, schema=schema).serialize()
    if message.size > MESSAGE_BYTES_MAX:
        raise ValueError(
            f"a batch of {rows} rows takes {message.size} bytes, more than the {MESSAGE_BYTES_MAX} "
            "that can be sent at once; use a smaller batch size or a smaller max_length"
        )
    return message


@functools.lru_cache(64)
def _one_entry(length: int) -> pa.Buffer:
    """The offsets of a list array whose single entry has `length` values. Most columns of a batch have the same."""
    return pa.py_buffer(np.array([0, length], np.int32))
