"""A trained table in plain TensorFlow: sorted keys, their embeddings, and one vector for every unknown id."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ps_cluster.export.stored_rows import StoredRows


class StaticTable(tf.Module):
    """Looks ids up by binary search.

    Ids beyond the last key, and ids between keys, find the row at the end: what the trainer's evaluation gives them
    too.
    """

    def __init__(self, stored: StoredRows, name: str):
        super().__init__(name=name)
        keys = stored.keys()
        order = np.argsort(keys, kind="stable")
        # The last key stands for unknown ids. It may also be a real key: the search finds the real one first.
        sorted_keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._keys = tf.Variable(sorted_keys, trainable=False, name=f"{name}/keys")
        self._rows = stored.rows(order, f"{name}/rows")
        self.num_rows = len(keys)

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """From int64 `[ids]` to float32 `[ids, dim]`."""
        last = tf.shape(self._keys, tf.int64)[0] - 1
        found = tf.minimum(tf.searchsorted(self._keys, ids, out_type=tf.int64), last)
        known = tf.equal(tf.gather(self._keys, found), ids)
        return tf.gather(self._rows, tf.where(known, found, last))
