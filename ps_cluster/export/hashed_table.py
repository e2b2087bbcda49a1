"""A trained table for our ops: keys in the order of their hashes, and where each hash begins."""

from __future__ import annotations

import tensorflow as tf

from ops.lookup_concat import FrozenTable, hash_order
from ps_cluster.errors import UserError
from ps_cluster.export.stored_rows import StoredRows


class HashedTable(tf.Module):
    """Holds a table as `ops.lookup_concat` finds ids in it. Unknown ids are as in `StaticTable`.

    Raises:
        UserError: more rows than the index can count.
    """

    def __init__(self, stored: StoredRows, name: str):
        super().__init__(name=name)
        keys = stored.keys()
        if len(keys) >= 1 << 31:
            raise UserError(f"tables.{name}: expected fewer than 2^31 rows for the form `ops`, found {len(keys)}")
        order, starts = hash_order(keys)
        self._keys = tf.Variable(keys[order], trainable=False, name=f"{name}/keys")
        self._starts = tf.Variable(starts, trainable=False, name=f"{name}/starts")
        self._rows = stored.rows(order, f"{name}/rows")
        self.num_rows = len(keys)

    @property
    def frozen(self) -> FrozenTable:
        """The variables: an op that is given them reads them without a copy."""
        return FrozenTable(self._keys, self._starts, self._rows)
