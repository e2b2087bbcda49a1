"""A trained table in plain TensorFlow: sorted hashes of its keys, their embeddings, and one vector for unknown ids."""

from __future__ import annotations

import tensorflow as tf

from ps_cluster.export.frozen_layout import variable_name
from ps_cluster.export.frozen_variables import FrozenVariables
from ps_cluster.export.row_types import RowType

_FACTORS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)  # of `ops.lookup_concat.mix`


class StaticTable(FrozenVariables):
    """Looks ids up by binary search among hashes, which differ where ids do.

    Hashes beyond the last, and those between others, find the row at the end: what the trainer's evaluation gives
    unknown ids too. The last hash is the largest number, which may also be a key's: the search finds that one first.
    """

    def __init__(self, name: str, width: int, row_type: RowType = "float32"):
        super().__init__("plain", name, width, row_type)
        self._hashes = tf.Variable(tf.zeros([1], tf.int64), False, shape=[None], name=variable_name(name, "hashes"))

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """From int64 `[ids]` to float32 `[ids, width]`."""
        hashes = _mixed(ids)
        last = tf.shape(self._hashes, tf.int64)[0] - 1
        found = tf.minimum(tf.searchsorted(self._hashes, hashes, out_type=tf.int64), last)
        known = tf.equal(tf.gather(self._hashes, found), hashes)
        found = tf.where(known, found, last)
        rows = tf.gather(self._rows, found)
        rows = tf.cast(tf.bitcast(rows, tf.float16) if self._row_type == "float16" else rows, tf.float32)
        return rows if self._scales is None else rows * tf.gather(self._scales, found)[:, tf.newaxis]


def _mixed(ids: tf.Tensor) -> tf.Tensor:
    """`ops.lookup_concat.mix` of ids int64 `[n]`, as int64 of the same order."""
    mixed = tf.bitcast(ids, tf.uint64)
    shift = tf.constant(33, tf.uint64)
    for factor in _FACTORS:
        mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, shift)) * tf.constant(factor, tf.uint64)
    mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, shift))
    return tf.bitcast(tf.bitwise.bitwise_xor(mixed, tf.constant(1 << 63, tf.uint64)), tf.int64)
