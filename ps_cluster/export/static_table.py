"""A trained table in plain TensorFlow: sorted keys, their rows, and zeros for an unknown id."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

_BLOCK_ROWS = 65536


class StaticTable(tf.Module):
    """Looks ids up by binary search.

    Ids beyond the last key, and ids between keys, find the row of zeros at the end: what the trainer's evaluation
    gives them too.
    """

    def __init__(self, shards: Sequence[tuple[str, str]], row_floats: int, dim: int, name: str):
        """Reads shards of (keys file, rows file) block by block; only the embedding part of each row is kept."""
        super().__init__(name=name)
        keys = np.concatenate([np.fromfile(keys_file, "<i8") for keys_file, _ in shards] or [np.zeros(0, np.int64)])
        order = np.argsort(keys, kind="stable")
        position = np.empty(len(keys), np.int64)
        position[order] = np.arange(len(keys))
        # The last key stands for the row of zeros. It may also be a real key: the search finds the real one first.
        sorted_keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._keys = tf.Variable(sorted_keys, trainable=False, name=f"{name}/keys")
        self._rows = tf.Variable(tf.zeros([len(sorted_keys), dim]), trainable=False, name=f"{name}/rows")
        start = 0
        for rows in _blocks([rows_file for _, rows_file in shards], row_floats):
            where = position[start : start + len(rows)]
            self._rows.scatter_nd_update(where[:, np.newaxis], rows[:, :dim])
            start += len(rows)
        self.num_rows = len(keys)

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """From int64 `[ids]` to float32 `[ids, dim]`."""
        last = tf.shape(self._keys, tf.int64)[0] - 1
        found = tf.minimum(tf.searchsorted(self._keys, ids, out_type=tf.int64), last)
        known = tf.equal(tf.gather(self._keys, found), ids)
        return tf.gather(self._rows, tf.where(known, found, last))


def _blocks(files: Sequence[str], row_floats: int) -> Iterator[np.ndarray]:
    for path in files:
        if os.path.getsize(path) == 0:
            continue
        rows = np.memmap(path, "<f4", "r").reshape(-1, row_floats)
        for start in range(0, len(rows), _BLOCK_ROWS):
            yield np.array(rows[start : start + _BLOCK_ROWS])
