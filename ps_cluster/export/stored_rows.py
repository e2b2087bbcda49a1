"""The rows of a stored table as one variable, in any order, without a second copy of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.checkpoint.rows import rows_of

Blocks = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]


@dataclass(frozen=True)
class StoredRows:
    """A table's rows, read in blocks, and what becomes of them.

    Attributes:
        blocks: gives rows in blocks, twice the same: keys, int64 `[n]`, each once in all; embeddings, float32
            `[n, dim or less]`, where those that are left out are zeros.
        dim: width of the widest.
        unknown: every value of the vector of an unknown id.
        projection: float32 `[dim, width]`: rows and unknown are multiplied by it. None: they stay as they are.
    """

    blocks: Blocks
    dim: int
    unknown: float = 0.0
    projection: np.ndarray | None = None

    def keys(self) -> np.ndarray:
        """All keys in the order of the blocks, int64 `[n]`."""
        return np.concatenate([np.zeros(0, np.int64), *(keys for keys, _ in self.blocks())])

    def rows(self, order: np.ndarray, name: str) -> tf.Variable:
        """Float32 `[n + 1, width]`: row i is that of key `order[i]`, the last one an unknown id's."""
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        unknown = self._projected(np.full([1, self.dim], self.unknown, np.float32))
        rows = tf.Variable(tf.tile(unknown, [len(order) + 1, 1]), trainable=False, name=name)
        start = 0
        for keys, embeddings in self.blocks():
            where = position[start : start + len(keys)]
            rows.scatter_nd_update(where[:, np.newaxis], self._projected(embeddings))
            start += len(keys)
        # A variable that was scattered into is copied by every read, in case of another scattering.
        tf.raw_ops.DisableCopyOnRead(resource=rows.handle)
        return rows

    def _projected(self, vectors: np.ndarray) -> np.ndarray:
        """Float32 `[n, dim or less]` to `[n, width]`."""
        if self.projection is None:
            return np.pad(vectors, [(0, 0), (0, self.dim - vectors.shape[1])])
        kernel = self.projection[: vectors.shape[1]]
        return (vectors.astype(np.float64) @ kernel.astype(np.float64)).astype(np.float32)


def stored_blocks(checkpoint: Checkpoint, table: str) -> Blocks:
    """The embeddings of a table in a checkpoint; a block of its files at a time."""

    def blocks() -> Iterable[tuple[np.ndarray, np.ndarray]]:
        return ((rows.keys, rows.embeddings) for rows in rows_of(checkpoint, table) if rows.row_class > 0)

    return blocks
