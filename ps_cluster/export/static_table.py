"""A trained table in plain TensorFlow: sorted keys, their embeddings, and one vector for every unknown id."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.checkpoint.rows import rows_of

Blocks = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]


class StaticTable(tf.Module):
    """Looks ids up by binary search.

    Ids beyond the last key, and ids between keys, find the row at the end: what the trainer's evaluation gives them
    too.
    """

    def __init__(self, blocks: Blocks, dim: int, unknown: float, name: str):
        """Args:
        blocks: gives rows in blocks, twice the same: keys, int64 `[n]`, each once in all; embeddings, float32
          `[n, dim or less]`, where those that are left out are zeros.
        dim: width of what a look-up gives.
        unknown: every value of the vector of an unknown id.
        """
        super().__init__(name=name)
        keys = np.concatenate([np.zeros(0, np.int64), *(keys for keys, _ in blocks())])
        order = np.argsort(keys, kind="stable")
        position = np.empty(len(keys), np.int64)
        position[order] = np.arange(len(keys))
        # The last key stands for unknown ids. It may also be a real key: the search finds the real one first.
        sorted_keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._keys = tf.Variable(sorted_keys, trainable=False, name=f"{name}/keys")
        self._rows = tf.Variable(tf.fill([len(sorted_keys), dim], unknown), trainable=False, name=f"{name}/rows")
        start = 0
        for block_keys, embeddings in blocks():
            where = position[start : start + len(block_keys)]
            padded = np.pad(embeddings, [(0, 0), (0, dim - embeddings.shape[1])])
            self._rows.scatter_nd_update(where[:, np.newaxis], padded)
            start += len(block_keys)
        self.num_rows = len(keys)

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """From int64 `[ids]` to float32 `[ids, dim]`."""
        last = tf.shape(self._keys, tf.int64)[0] - 1
        found = tf.minimum(tf.searchsorted(self._keys, ids, out_type=tf.int64), last)
        known = tf.equal(tf.gather(self._keys, found), ids)
        return tf.gather(self._rows, tf.where(known, found, last))


def stored_blocks(checkpoint: Checkpoint, table: str) -> Blocks:
    """The embeddings of a table in a checkpoint, for a `StaticTable`; a block of its files at a time."""

    def blocks() -> Iterable[tuple[np.ndarray, np.ndarray]]:
        return ((rows.keys, rows.embeddings) for rows in rows_of(checkpoint, table) if rows.row_class > 0)

    return blocks
