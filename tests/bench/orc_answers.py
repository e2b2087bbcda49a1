"""Whether two ways of reading give the same rows: one number of all values, whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf

from data.read.order import mix

_STEP = np.uint64(0x9E3779B97F4A7C15)


def fingerprint(batches: Iterable[Mapping[str, tf.Tensor | tf.RaggedTensor]], names: Sequence[str]) -> tuple[int, int]:
    """(rows, sum over the rows of a hash of each row's values in the columns `names`)."""
    rows, total = 0, np.uint64(0)
    with np.errstate(over="ignore"):
        for batch in batches:
            hashes = _row_hashes([_arrays(batch[name]) for name in names])
            rows += len(hashes)
            total += hashes.sum(dtype=np.uint64)
    return rows, int(total)


def table_fingerprint(table: pa.Table, names: Sequence[str]) -> tuple[int, int]:
    """The same of an Arrow table."""
    rows, total = 0, np.uint64(0)
    with np.errstate(over="ignore"):
        for batch in table.select(names).to_batches(1 << 16):
            hashes = _row_hashes([_arrow_arrays(column) for column in batch.columns])
            rows += len(hashes)
            total += hashes.sum(dtype=np.uint64)
    return rows, int(total)


def _row_hashes(columns: list[tuple[np.ndarray, np.ndarray | None]]) -> np.ndarray:
    """uint64 `[rows]`; a column is (values, row splits or None)."""
    total: np.ndarray | None = None
    for number, (values, splits) in enumerate(columns):
        bits = values.astype(np.float32).view(np.uint32) if values.dtype.kind == "f" else values.astype(np.int64)
        bits = bits.astype(np.uint64)
        if splits is None:
            hashes = mix(bits + _STEP * np.uint64(number + 1))
        else:
            lengths = np.diff(splits)
            place = np.arange(len(bits)) - np.repeat(splits[:-1], lengths)
            items = mix(bits + _STEP * (place.astype(np.uint64) + np.uint64(1000 * (number + 1))))
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
            hashes = mix(sums[splits[1:]] - sums[splits[:-1]] + lengths.astype(np.uint64))
        total = hashes if total is None else mix(total + hashes)
    assert total is not None
    return total


def _arrays(value: tf.Tensor | tf.RaggedTensor) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(value, tf.RaggedTensor):
        return value.values.numpy(), value.row_splits.numpy()
    return value.numpy(), None


def _arrow_arrays(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    if pa.types.is_list(array.type):
        splits = array.offsets.to_numpy().astype(np.int64)
        return array.flatten().to_numpy(), splits - splits[0]
    return array.to_numpy(), None
