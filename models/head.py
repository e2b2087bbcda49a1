"""The click head: from a representation of the row to the logit of a click."""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from models.mlp import Linear


class ClickHead(tf_keras.layers.Layer):
    """Linear: `[batch, dim]` to logits `[batch, 1]`; the probability of a click is their sigmoid."""

    def __init__(self, dim: int, *, seed: int, name: str = "click") -> None:
        super().__init__(name=name)
        self.linear = Linear(dim, 1, seed=seed, name=f"{name}/logit")
        self.built = True

    def call(self, representation: tf.Tensor) -> tf.Tensor:
        return self.linear(representation)
