"""The plain feed-forward network: linear layers with ReLU and dropout between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from models.dropout import Dropout
from models.initial import add_weight, glorot, zeros


class Linear(tf_keras.layers.Layer):
    """`x W + b`: `[batch, inputs]` to `[batch, outputs]`; weights exist once the layer is constructed."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, seed: int, name: str) -> None:
        super().__init__(name=name)
        self.kernel = add_weight(self, "kernel", (inputs, outputs), glorot(inputs, outputs), seed)
        self.bias = add_weight(self, "bias", (outputs,), zeros, seed) if bias else None
        self.built = True

    def call(self, values: tf.Tensor) -> tf.Tensor:
        product = tf.matmul(values, self.kernel)
        return product if self.bias is None else tf.nn.bias_add(product, self.bias)


class Mlp(tf_keras.layers.Layer):
    """Hidden layers `dropout(relu(x W + b))`: `[batch, inputs]` to `[batch, output_dim]`.

    With `hidden` empty it passes its input on. `output_dim` is the width of the result.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int], dropout: float, *, seed: int, stream: int = 0, name: str
    ) -> None:
        super().__init__(name=name)
        widths = [inputs, *hidden]
        self.output_dim = widths[-1]
        self.linears = [
            Linear(widths[i], widths[i + 1], seed=seed, name=f"{name}/layer_{i}") for i in range(len(hidden))
        ]
        self.dropouts = [
            Dropout(dropout, seed=seed, stream=stream, name=f"{name}/dropout_{i}") for i in range(len(hidden))
        ]
        self.built = True

    def call(self, values: tf.Tensor, training: Any = None) -> tf.Tensor:
        for linear, dropout in zip(self.linears, self.dropouts):
            values = dropout(tf.nn.relu(linear(values)), training=training)
        return values
