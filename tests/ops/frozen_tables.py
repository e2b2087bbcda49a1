"""Frozen tables for tests, and what a dictionary finds in them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ops.lookup_concat import Arrangement, FrozenTable, hash_order


def frozen(keys: np.ndarray, rows: np.ndarray, unknown: np.ndarray, index: type = np.int32) -> FrozenTable:
    """keys int64 `[n]` and rows float32 `[n, dim]` in any order; unknown: float32 `[dim]`."""
    order, starts = hash_order(keys, index)
    return FrozenTable(tf.constant(keys[order]), tf.constant(starts), tf.constant(np.vstack([rows[order], unknown])))


def narrowed(table: FrozenTable, kind: str) -> tuple[FrozenTable, FrozenTable]:
    """A table of float32 as one of float16 or int8, and in float32 what that holds."""
    rows = table.rows.numpy()
    if kind == "float16":
        narrow = rows.astype(np.float16)
        return table._replace(rows=tf.constant(narrow)), table._replace(rows=tf.constant(narrow.astype(np.float32)))
    scales = (np.abs(rows).max(axis=1) / 127 + 1e-9).astype(np.float32)
    narrow = np.rint(rows / scales[:, np.newaxis]).astype(np.int8)
    whole = narrow.astype(np.float32) * scales[:, np.newaxis]
    return table._replace(rows=tf.constant(narrow), scales=tf.constant(scales)), table._replace(rows=tf.constant(whole))


class Dictionary:
    """The same table, looked up key by key, in float64."""

    def __init__(self, keys: np.ndarray, rows: np.ndarray, unknown: np.ndarray) -> None:
        self._rows = {int(key): row.astype(np.float64) for key, row in zip(keys, rows)}
        self._unknown = unknown.astype(np.float64)

    def row(self, key: int) -> np.ndarray:
        return self._rows.get(int(key), self._unknown)

    def pooled(self, ids: list[int], pooling: str) -> np.ndarray:
        total = sum((self.row(key) for key in ids), np.zeros_like(self._unknown))
        return total / {"sum": 1, "mean": max(len(ids), 1), "sqrtn": np.sqrt(max(len(ids), 1))}[pooling]


def counted(ids: np.ndarray, length: int, max_length: int) -> list[int]:
    """The ids of one padded list that count."""
    real = ids.tolist()[: min(max(int(length), 0), len(ids))]
    return real[-max_length:] if max_length else real


def expected_matrix(
    arrangement: Arrangement,
    ids: list[np.ndarray],
    lengths: list[np.ndarray],
    given: list[np.ndarray],
    tables: list[Dictionary],
) -> np.ndarray:
    """The matrix by the definition of every value; float64 `[parts, batch, width]`."""
    batch = len((ids or given)[0])
    matrix = np.zeros([arrangement.parts, batch, arrangement.width])
    lengths_of = iter(lengths)
    vectors = []  # of each input, [batch, its width]
    for feature, values in zip(arrangement.ids, ids):
        table = tables[feature.table]
        if feature.pooling == "id":
            vectors.append([table.row(key) for key in values])
            continue
        lists = [counted(one, length, feature.max_length) for one, length in zip(values, next(lengths_of))]
        vectors.append([table.pooled(one, feature.pooling) for one in lists])
    for one, values in zip(arrangement.given, given):
        values = values.astype(np.float64)
        values = values[:, np.newaxis] if values.ndim == 1 else values
        vectors.append(np.sign(values) * np.log1p(np.abs(values)) if one.signed_log else values)
    for segment in arrangement.segments:
        for row in range(batch):
            part = vectors[segment.input][row][segment.start : segment.start + segment.width]
            matrix[segment.part, row, segment.column : segment.column + segment.width] = part
    return matrix
