"""DeepFM (arXiv 1703.04247): a factorisation machine and a deep network side by side on the same inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from models.head import ClickHead
from models.initial import add_weight, glorot
from models.inputs import InputSpec
from models.mlp import Linear, Mlp


def pair_sum(fields: tf.Tensor) -> tf.Tensor:
    """Sum of the dot products of all pairs of fields: `[batch, fields, dim]` to `[batch, 1]`.

    In linear time by Σ_{i<j} v_i · v_j = ½ (|Σ v_i|² - Σ |v_i|²).
    """
    square_of_sum = tf.square(tf.reduce_sum(fields, axis=1))
    sum_of_squares = tf.reduce_sum(tf.square(fields), axis=1)
    return 0.5 * tf.reduce_sum(square_of_sum - sum_of_squares, axis=1, keepdims=True)


def default_fm_dim(inputs: Sequence[InputSpec]) -> int:
    """The commonest width of vectors and sequences, the larger at a tie; 8 when all inputs are dense."""
    counts = Counter(spec.dim for spec in inputs if spec.kind != "dense")
    return max(counts, key=lambda dim: (counts[dim], dim)) if counts else 8


class DeepFM(tf_keras.layers.Layer):
    """Matrices `[batch, inputs[i].dim]` to logits `[batch, 1]`: first order + sum over pairs + deep network.

    First order is linear in all inputs: the paper's weight per id is here a learned direction in the id's
    vector. In the pairs an input is a vector of width `fm_dim`: as it is where the width fits, by a
    projection without bias where it does not; a dense number is the number times a learned vector. The deep
    network sees all inputs side by side; with `hidden` empty there is none.
    """

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        *,
        hidden: Sequence[int],
        fm_dim: int | None,
        dropout: float,
        seed: int,
        stream: int = 0,
        name: str = "deepfm",
    ) -> None:
        super().__init__(name=name)
        self.fm_dim = fm_dim or default_fm_dim(inputs)
        width = sum(spec.dim for spec in inputs)
        self.first_order = ClickHead(width, seed=seed, name=f"{name}/first_order")
        self.projections = [
            None
            if spec.kind != "dense" and spec.dim == self.fm_dim
            else add_weight(
                self,
                f"{spec.name}/projection",
                (spec.dim, self.fm_dim),
                glorot(spec.dim, self.fm_dim),
                seed,
            )
            for spec in inputs
        ]
        self.deep = None
        if hidden:
            self.deep = Mlp(width, hidden, dropout, seed=seed, stream=stream, name=f"{name}/deep")
            self.deep_logit = Linear(self.deep.output_dim, 1, bias=False, seed=seed, name=f"{name}/deep/logit")
        self.built = True

    def call(self, matrices: Sequence[tf.Tensor], training: Any = None) -> tf.Tensor:
        row = tf.concat(matrices, axis=1)
        fields = [
            matrix if projection is None else tf.matmul(matrix, projection)
            for matrix, projection in zip(matrices, self.projections)
        ]
        logit = self.first_order(row) + pair_sum(tf.stack(fields, axis=1))
        if self.deep is not None:
            logit += self.deep_logit(self.deep(row, training=training))
        return logit
