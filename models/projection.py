"""Rows of several widths at one: a linear map of vectors that are padded with zeros."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
import tf_keras

from models.initial import add_weight


class Projection(tf_keras.layers.Layer):
    """Vectors `[..., table_dim]`, the narrower ones padded with zeros, to `[..., dim]`.

    A vector of width t meets the first t rows of the weight `[table_dim, dim]` only: each width has a projection of
    its own, which is a part of the next wider one's, and an id that moves up to a wider row (whose new positions start
    at zero) keeps its value. Being linear, it may stand behind a pooling that is a weighted sum.

    It starts as the identity: narrow vectors are themselves, padded. Positions beyond `dim` start in random directions
    of length 1, since at zero neither they nor their rows of the weight would have a gradient.
    """

    def __init__(self, table_dim: int, dim: int, *, seed: int, name: str) -> None:
        super().__init__(name=name)
        self.table_dim = table_dim
        self.dim = dim
        self.kernel = add_weight(self, "kernel", (table_dim, dim), _start, seed)
        self.built = True

    def call(self, vectors: tf.Tensor) -> tf.Tensor:
        vectors = tf.ensure_shape(vectors, [*[None] * (len(vectors.shape) - 1), self.table_dim])
        return tf.tensordot(vectors, self.kernel, 1)


def _start(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    values = np.eye(shape[0], shape[1])
    beyond = max(shape[0] - shape[1], 0)
    if beyond:
        values[shape[1] :] = random.normal(0.0, 1.0 / math.sqrt(shape[1]), (beyond, shape[1]))
    return values
