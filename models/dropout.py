"""Dropout whose masks are a function of (seed, stream, layer name, number of the training call).

tf-keras' own layer draws from random state that lives in the process; here the number of training calls is a
weight, so a restored model goes on with the masks that it would have had.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from models.initial import generator


class Dropout(tf_keras.layers.Layer):
    """Set a share `rate` of the elements to zero while training and scale the others by 1 / (1 - rate).

    Args:
        rate: Share in [0, 1). At 0 the layer has no weight and passes its input on.
        seed: Seed of the model.
        stream: Workers of one job share the seed; with different streams their masks differ.
    """

    def __init__(self, rate: float, *, seed: int, stream: int = 0, name: str) -> None:
        # Keras would cast float64 values to the layer's float32.
        super().__init__(name=name, autocast=False)
        self.rate = rate
        self.calls = None
        if rate > 0:
            draw = generator(seed, f"{name}/stream_{stream}")
            self._key = int(draw.integers(0, 2**62))
            self.calls = self.add_weight(
                name=f"{name}/calls", shape=(), dtype=tf.int64, initializer="zeros", trainable=False
            )
        self.built = True

    def call(self, values: tf.Tensor, training: Any = None) -> tf.Tensor:
        if self.calls is None or not training:
            return values
        return tf.nn.experimental.stateless_dropout(values, self.rate, seed=self.next_seed(), rng_alg="philox")

    def next_seed(self) -> tf.Tensor:
        """Counts a training call; the layer's key and the number of the call, int64 `[2]`. Only with a rate above 0."""
        assert self.calls is not None
        call = self.calls.assign_add(tf.constant(1, tf.int64))
        return tf.stack([tf.constant(self._key, tf.int64), call])
