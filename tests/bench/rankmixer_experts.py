"""The sides of `tests.bench.rankmixer`'s case `experts`: the gated sum of a token's experts, as the op and composed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from models.experts import ExpertWeights, expert_sum
from ops.rankmixer_experts import sparse_experts
from tests.bench.rankmixer_sides import Side


class Experts:
    """Random tokens `[tokens, batch, dim]`, gates of which a share `active` is not 0, and experts that are together as
    wide as a network of four times `dim`; forward, and the gradients of all inputs."""

    def __init__(self, batch: int, tokens: int, dim: int, experts: int, active: float) -> None:
        rng = np.random.default_rng(0)
        hidden = 4 * dim // experts

        def normal(deviation: float, *shape: int) -> tf.Tensor:
            return tf.constant(rng.standard_normal(shape, np.float32) * np.float32(deviation))

        self._tokens, self._upstream = normal(1.0, tokens, batch, dim), normal(1.0, tokens, batch, dim)
        gates = rng.uniform(0.5, 1.5, [tokens, batch, experts]) * (rng.random([tokens, batch, experts]) < active)
        self._gates = tf.constant(gates, tf.float32)
        self._weights = ExpertWeights(
            normal(dim**-0.5, tokens, experts, dim, hidden),
            normal(0.1, tokens, experts, hidden),
            normal(hidden**-0.5, tokens, experts, hidden, dim),
            normal(0.1, tokens, experts, dim),
        )

    def fused(self) -> Side:
        return self._side(
            lambda tokens, gates, weights: sparse_experts(tokens, gates, *weights, activation="gelu", tokens_first=True)
        )

    def composed(self) -> Side:
        return self._side(lambda tokens, gates, weights: expert_sum(tokens, gates, weights, "gelu"))

    def _side(self, layer: Callable[[tf.Tensor, tf.Tensor, ExpertWeights], tf.Tensor]) -> Side:
        def run(tokens: tf.Tensor, gates: tf.Tensor, weights: ExpertWeights, upstream: tf.Tensor) -> list[tf.Tensor]:
            # The gates are a ReLU's, as in the model: both sides then have the same gradients.
            sources = [tokens, gates, *weights]
            with tf.GradientTape() as tape:
                tape.watch(sources)
                result = layer(tokens, tf.nn.relu(gates), weights)
            return [result, *tape.gradient(result, sources, upstream)]

        traced = tf.function(run, autograph=False)
        return lambda: traced(self._tokens, self._gates, self._weights, self._upstream)
