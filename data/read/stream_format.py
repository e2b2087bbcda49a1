"""How batches travel from the reader process to TensorFlow: one Arrow row is one batch, a message has several.

Every column of the stream is a list each of whose entries holds a whole batch, so that lists of any length
travel without padding. A scalar column takes one column of the stream (`[rows]`); a list column takes two:
its values `[values]` int64 and its row splits `[rows + 1]` int64. Sampling adds two scalar columns, weight and
offset. The last column is the trailer, int64 `[5 + columns]`: batch number (counted from 0 over the whole stream),
rows, epoch, rows lost, then of each declared column the nulls that were filled, then the seal, which is a key of this
reader plus the batch number.

The receiver must check the seal. tensorflow-io's client takes a message that was cut short for complete, and its end is
then memory that was never written: zeros, or what an earlier message has left there. Trailers are the last bytes of a
message, so the right seal shows that all of its batch has arrived. What could hold the same seal at the same place is
only the same message of the same reader, the key being random.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from data.read.batches import Batches
from data.read.part_reader import output_schema
from data.read.read_spec import ReadSpec

MESSAGE_BYTES_MAX = 2**31 - 2**16
"""tensorflow-io's client reads a message by one `recv`, which gives less than asked for beyond this."""

_TOGETHER_BYTES = 2**24
"""Batches of more together travel in several messages: both processes hold a message in memory."""


def stream_types(spec: ReadSpec) -> list[pa.DataType]:
    """The element type of each column of the stream, the trailer included."""
    types: list[pa.DataType] = []
    for field in output_schema(spec):
        types += [pa.int64(), pa.int64()] if pa.types.is_list(field.type) else [field.type]
    return [*types, pa.int64()]


def stream_schema(spec: ReadSpec) -> pa.Schema:
    """The Arrow schema of the stream. Columns are found by position; the names are only numbers."""
    return pa.schema([(str(i), pa.list_(kind)) for i, kind in enumerate(stream_types(spec))])


def to_messages(batches: Batches, schema: pa.Schema, key: int, number: int) -> Iterator[pa.RecordBatch]:
    """`batches`, whose first is number `number` of the stream, as messages, one if they fit. Raises `ValueError` for a
    batch that is too large for the receiver."""
    if len(batches) > 1 and batches.rows.nbytes > _TOGETHER_BYTES:
        middle = len(batches) // 2
        yield from to_messages(batches[:middle], schema, key, number)
        yield from to_messages(batches[middle:], schema, key, number + middle)
        return
    message = _message(batches, schema, key, number)
    size = pa.ipc.get_record_batch_size(message)
    if size > MESSAGE_BYTES_MAX:
        raise ValueError(
            f"a batch of {batches.batch_rows} rows takes {size} bytes, more than the {MESSAGE_BYTES_MAX} "
            "that can be sent at once; use a smaller batch size or a smaller max_length"
        )
    yield message


def _message(batches: Batches, schema: pa.Schema, key: int, number: int) -> pa.RecordBatch:
    count, rows = len(batches), batches.batch_rows
    even = _even_entries(count, rows)
    columns: list[tuple[pa.Array, pa.Buffer]] = []
    for array in batches.rows.columns:
        if pa.types.is_list(array.type):
            splits = array.offsets.to_numpy()
            starts = splits[::rows]
            own = np.lib.stride_tricks.sliding_window_view(splits, rows + 1)[::rows] - starts[:-1, np.newaxis]
            columns.append((array.flatten(), pa.py_buffer(starts - splits[0])))
            columns.append((pa.array(own.ravel(), pa.int64()), _even_entries(count, rows + 1)))
        else:
            columns.append((array, even))
    numbers = np.arange(number, number + count)
    fields = [numbers, np.full(count, rows), np.full(count, batches.epoch), *batches.counts.T, numbers + key]
    trailers = np.stack(fields, axis=1)
    columns.append((pa.array(trailers.ravel()), _even_entries(count, trailers.shape[1])))
    arrays = [
        pa.Array.from_buffers(field.type, count, [None, offsets], 0, children=[values])
        for (values, offsets), field in zip(columns, schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@functools.lru_cache(64)
def _even_entries(count: int, length: int) -> pa.Buffer:
    """The offsets of a list array whose `count` entries have `length` values each."""
    return pa.py_buffer(np.arange(count + 1, dtype=np.int32) * np.int32(length))
