"""DeepFM with the products of its dense fields as one.

The field of a dense number x_i is x_i p_i, p_i a learned vector: a product each. With the inputs in another order
(those whose vectors are fields as they are, then dense numbers, then all others), and the kernels' rows too, the first
are one reshape, the second one product. Every field keeps its value; their sum is of the new order, and as the
factorisation machine is a difference of large sums where a dense number is large, so is then what the order rounds
differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from models.deepfm import DeepFM, pair_sum
from models.mlp import Linear


class FoldedDeepFM(tf_keras.layers.Layer):
    """A trained DeepFM, which becomes this one: matrices `[batch, widths[i]]` to logits `[batch, 1]`.

    May also be called with one matrix, all inputs side by side in `order`.
    """

    def __init__(self, body: DeepFM, widths: Sequence[int]) -> None:
        super().__init__(name=f"{body.name}_folded")
        kinds = [
            0 if projection is None else 1 if width == 1 else 2 for projection, width in zip(body.projections, widths)
        ]
        self.order = tuple(int(number) for number in np.argsort(kinds, kind="stable"))
        self._fields = kinds.count(0)
        self._dense = kinds.count(1)
        self._fm_dim = body.fm_dim
        self._others = tuple((widths[number], body.projections[number]) for number in self.order if kinds[number] == 2)
        if self._dense:
            vectors = [body.projections[number] for number in self.order if kinds[number] == 1]
            self.dense_vectors = tf.Variable(tf.concat(vectors, axis=0), trainable=False, name=f"{self.name}/dense")
        starts = np.cumsum([0, *widths])
        rows = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in self.order])
        self.first_order, self.deep = body.first_order, body.deep
        _reorder(self.first_order.linear, rows)
        if self.deep is not None:
            self.deep_logit = body.deep_logit
            _reorder(self.deep.linears[0], rows)
        self.built = True

    def call(self, matrices: Sequence[tf.Tensor], training: Any = None) -> tf.Tensor:
        row = matrices[0]
        if len(matrices) > 1:
            row = tf.concat([matrices[number] for number in self.order], axis=1)
        logit = self.first_order(row) + pair_sum(self._vectors(row))
        if self.deep is not None:
            logit += self.deep_logit(self.deep(row, training=False))
        return logit

    def _vectors(self, row: tf.Tensor) -> tf.Tensor:
        """All fields, `[batch, fields, fm_dim]`."""
        parts = []
        start = self._fields * self._fm_dim
        if self._fields:
            parts.append(tf.reshape(row[:, :start], [-1, self._fields, self._fm_dim]))
        if self._dense:
            parts.append(row[:, start : start + self._dense, tf.newaxis] * self.dense_vectors)
            start += self._dense
        for width, projection in self._others:
            parts.append(tf.matmul(row[:, start : start + width], projection)[:, tf.newaxis])
            start += width
        return parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)


def _reorder(linear: Linear, rows: np.ndarray) -> None:
    linear.kernel.assign(linear.kernel.numpy()[rows])
