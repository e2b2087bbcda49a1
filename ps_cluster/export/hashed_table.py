"""A trained table for our ops: keys in the order of their hashes, and where each hash begins."""

from __future__ import annotations

import tensorflow as tf

from ops.lookup_concat import FrozenTable
from ps_cluster.export.frozen_layout import variable_name
from ps_cluster.export.frozen_variables import FrozenVariables
from ps_cluster.export.row_types import RowType


class HashedTable(FrozenVariables):
    """Holds a table as `ops.lookup_concat` finds ids in it. Unknown ids are as in `StaticTable`."""

    def __init__(self, name: str, width: int, row_type: RowType = "float32"):
        super().__init__("ops", name, width, row_type)
        self._keys = tf.Variable(tf.zeros([0], tf.int64), False, shape=[None], name=variable_name(name, "keys"))
        self._starts = tf.Variable(tf.zeros([2], tf.int32), False, shape=[None], name=variable_name(name, "starts"))

    def read(self) -> FrozenTable:
        """What the variables hold, without a copy; in a function, read once for all look-ups."""
        rows = self._rows.read_value()
        if self._row_type == "float16":
            rows = tf.bitcast(rows, tf.float16)
        scales = None if self._scales is None else self._scales.read_value()
        return FrozenTable(self._keys.read_value(), self._starts.read_value(), rows, scales)
