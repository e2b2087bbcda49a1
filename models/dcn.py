"""DCN-v2 (arXiv 2008.13535): cross layers beside a deep network, both on all inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from models.head import ClickHead
from models.mlp import Linear, Mlp


class CrossLayer(tf_keras.layers.Layer):
    """`x0 * (W x + b) + x` on `[batch, width]`; with `rank`, W is a product `[width, rank] [rank, width]`."""

    def __init__(self, width: int, rank: int | None, *, seed: int, name: str) -> None:
        super().__init__(name=name)
        self.reduce = None
        if rank is not None:
            self.reduce = Linear(width, rank, bias=False, seed=seed, name=f"{name}/reduce")
        self.linear = Linear(rank or width, width, seed=seed, name=f"{name}/linear")
        self.built = True

    def call(self, first: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        reduced = values if self.reduce is None else self.reduce(values)
        return first * self.linear(reduced) + values


class DCN(tf_keras.layers.Layer):
    """The parallel structure: matrices `[batch, widths[i]]` to logits of cross and deep results together.

    With `hidden` empty there is no deep network and the logit is of the cross layers alone.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        cross_layers: int,
        cross_rank: int | None,
        hidden: Sequence[int],
        dropout: float,
        seed: int,
        stream: int = 0,
        name: str = "dcn",
    ) -> None:
        super().__init__(name=name)
        width = sum(widths)
        self.crosses = [
            CrossLayer(width, cross_rank, seed=seed, name=f"{name}/cross_{index}") for index in range(cross_layers)
        ]
        self.deep = None
        if hidden:
            self.deep = Mlp(width, hidden, dropout, seed=seed, stream=stream, name=f"{name}/deep")
        head_width = width + (self.deep.output_dim if self.deep is not None else 0)
        self.head = ClickHead(head_width, seed=seed, name=f"{name}/click")
        self.built = True

    def call(self, matrices: Sequence[tf.Tensor], training: Any = None) -> tf.Tensor:
        first = tf.concat(matrices, axis=1)
        crossed = first
        for cross in self.crosses:
            crossed = cross(first, crossed)
        if self.deep is None:
            return self.head(crossed)
        return self.head(tf.concat([crossed, self.deep(first, training=training)], axis=1))
