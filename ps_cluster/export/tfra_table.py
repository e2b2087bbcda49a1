"""A trained table as TFRA's cuckoo hash table: a SavedModel restores its rows, where TFRA's ops are loaded."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons.dynamic_embedding import CuckooHashTable

from ps_cluster.export.frozen_layout import TABLES, pieces
from ps_cluster.export.ordered_rows import OrderedRows


class TfraTable(tf.Module):
    """Rows by id; every other id has the vector `unknown`, float32 `[width]`.

    shared_name: of the table in the process that serves it. There tables of one name are one table, so those of two
    versions must not have the same.
    """

    def __init__(self, name: str, unknown: np.ndarray, shared_name: str):
        super().__init__(name=name)
        self._table = _Named(f"{TABLES}{name}", unknown, shared_name)

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """From int64 `[ids]` to float32 `[ids, width]`."""
        return self._table.lookup(ids)

    def fill(self, rows: OrderedRows) -> None:
        """Holds the rows in this process; for models that are used where they were made."""
        for piece in pieces("tfra", rows):
            self._table.insert(tf.constant(piece["keys"]), tf.constant(piece["values"]))


class _Named(CuckooHashTable):
    """TFRA itself names a table by a counter."""

    def __init__(self, name: str, unknown: np.ndarray, shared_name: str):
        self._chosen = shared_name
        super().__init__(tf.int64, tf.float32, unknown, name=name)

    def _create_resource(self) -> tf.Tensor:
        self._shared_name = self._chosen
        return super()._create_resource()
