"""Sparse experts of a RankMixer (arXiv 2507.15551, section on its Sparse-MoE variant): a token's network as a sum.

Token t has E experts, small networks of its own, and a router: `sum over e of G_e(s) · FFN_t,e(s)`, the gates G being
`ReLU(s R_t + r_t)`. An expert whose gate is 0 need not be computed.

Two routers (the paper's dense training, sparse inference): in training each block computes twice with the same experts,
once by the gates of the router that inference will use, once by those of a second one that nothing presses towards
zero, so that experts learn from rows which the first keeps from them.

The paper leaves open, and here is chosen: routers start with kernels of deviation 0.5 / sqrt(D) and biases of 1: nearly
all gates begin near 1, where the experts together are the plain network they stand for. The routers' products are
float32 whatever the experts' precision is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

from models.block_ops import BlockNorms, Network, activate, composed_block, wide
from models.dropout import Dropout
from models.initial import add_weight, glorot, normal, ones, zeros
from ops.rankmixer_block import BlockOptions
from ops.rankmixer_experts import sparse_experts


class ExpertWeights(NamedTuple):
    """Weights of all experts of all tokens: w1 `[T, E, D, H]`, b1 `[T, E, H]` (swiglu: 2H), w2 `[T, E, H, D]`, b2
    `[T, E, D]`."""

    w1: tf.Tensor
    b1: tf.Tensor
    w2: tf.Tensor
    b2: tf.Tensor


def expert_sum(
    tokens: tf.Tensor,
    gates: tf.Tensor,
    weights: ExpertWeights,
    activation: str,
    drop: Network = lambda hidden: hidden,
) -> tf.Tensor:
    """The gated sum of each token's experts: tokens `[T, batch, D]`, gates float32 `[T, batch, E]` to `[T, batch, D]`.

    All experts are computed, whatever their gates; `ops.rankmixer_experts` is the same for those above 0 only.
    """
    dtype = tokens.dtype
    inner = wide(tf.matmul(tokens[:, tf.newaxis], weights.w1)) + wide(weights.b1)[:, :, tf.newaxis, :]
    of_expert = tf.cast(tf.transpose(gates, [0, 2, 1]), inner.dtype)[..., tf.newaxis]
    # The gate on the hidden units: what is linear behind them need not know of it.
    hidden = tf.cast(drop(activate(inner, activation)) * of_expert, dtype)
    output = tf.reduce_sum(wide(tf.matmul(hidden, weights.w2)), axis=1)
    return tf.cast(output + tf.matmul(tf.cast(gates, output.dtype), wide(weights.b2)), dtype)


class Router(tf_keras.layers.Layer):
    """Gates of each token's experts: `[T, batch, D]` to float32 `[T, batch, E]`, none below 0."""

    def __init__(self, tokens: int, dim: int, experts: int, *, seed: int, name: str, dtype: str) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.kernel = add_weight(self, "kernel", (tokens, dim, experts), normal(0.5 / math.sqrt(dim)), seed)
        self.bias = add_weight(self, "bias", (tokens, experts), ones, seed)
        self.built = True

    def call(self, tokens: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.matmul(tf.cast(tokens, self.kernel.dtype), self.kernel) + self.bias[:, tf.newaxis, :])


class ExpertsBlock(tf_keras.layers.Layer):
    """A RankMixer block (`models.rankmixer_block`) whose tokens have experts instead of one network.

    Call with `[batch, T, D]`; returns the same and the gates of the router that inference uses, float32
    `[T, batch, E]`. With `both_paths` the batch holds every row twice: the first half goes by that router, the second
    by the dense one, and the gates are those of the first half.

    Args:
        experts: Number of experts E of each token.
        hidden: Width H of an expert.
        dense_router: Whether there is a second router.
        fused: Whether the op computes the sum, and so only experts whose gates are not 0. Its dropout masks are others
            than those of the composed form.
    """

    def __init__(
        self,
        tokens: int,
        dim: int,
        *,
        experts: int,
        hidden: int,
        dense_router: bool,
        options: BlockOptions,
        fused: bool = False,
        seed: int,
        stream: int = 0,
        name: str,
        dtype: str = "float32",
    ) -> None:
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.options = options
        self.fused = fused
        self.plain_norm2 = False  # as in `RankMixerBlock`
        inner = 2 * hidden if options.activation == "swiglu" else hidden
        shifted = options.norm == "post_ln"
        whole = experts * hidden  # weights start as in the plain network of this width
        self.gamma1 = add_weight(self, "gamma1", (dim,), ones, seed)
        self.beta1 = add_weight(self, "beta1", (dim,), zeros, seed) if shifted else None
        self.w1 = add_weight(self, "w1", (tokens, experts, dim, inner), glorot(dim, whole), seed)
        self.b1 = add_weight(self, "b1", (tokens, experts, inner), zeros, seed)
        self.w2 = add_weight(self, "w2", (tokens, experts, hidden, dim), glorot(whole, dim), seed)
        self.b2 = add_weight(self, "b2", (tokens, experts, dim), zeros, seed)
        self.gamma2 = add_weight(self, "gamma2", (dim,), ones, seed)
        self.beta2 = add_weight(self, "beta2", (dim,), zeros, seed) if shifted else None
        self.router = Router(tokens, dim, experts, seed=seed, name=f"{name}/router", dtype=dtype)
        self.dense_router = None
        if dense_router:
            self.dense_router = Router(tokens, dim, experts, seed=seed, name=f"{name}/dense_router", dtype=dtype)
        self.dropout = Dropout(options.dropout, seed=seed, stream=stream, name=f"{name}/dropout")
        self.built = True

    def call(self, tokens: tf.Tensor, training: Any = None, both_paths: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        dtype = tokens.dtype
        nothing = tf.zeros([0], dtype)
        norms = BlockNorms(
            *(
                nothing if weight is None else tf.cast(weight, dtype)
                for weight in (self.gamma1, self.beta1, self.gamma2, self.beta2)
            )
        )
        if self.plain_norm2:
            norms = norms._replace(gamma2=None, beta2=None)
        weights = ExpertWeights(*(tf.cast(weight, dtype) for weight in (self.w1, self.b1, self.w2, self.b2)))
        sparse_gates: list[tf.Tensor] = []

        def network(mixed: tf.Tensor) -> tf.Tensor:
            if both_paths:
                assert self.dense_router is not None
                first, second = tf.split(mixed, 2, axis=1)
                sparse_gates.append(self.router(first))
                gates = tf.concat([sparse_gates[0], self.dense_router(second)], axis=1)
            else:
                sparse_gates.append(self.router(mixed))
                gates = sparse_gates[0]
            return self._sum(mixed, gates, weights, bool(training))

        return composed_block(tokens, norms, self.options, network), sparse_gates[0]

    def _sum(self, tokens: tf.Tensor, gates: tf.Tensor, weights: ExpertWeights, training: bool) -> tf.Tensor:
        if not self.fused:
            return expert_sum(
                tokens, gates, weights, self.options.activation, lambda hidden: self.dropout(hidden, training=training)
            )
        dropping = training and self.options.dropout > 0
        return sparse_experts(
            tokens,
            gates,
            *weights,
            activation=self.options.activation,
            dropout=self.options.dropout if dropping else 0.0,
            seed=self.dropout.next_seed() if dropping else None,
            tokens_first=True,
            keep=training,
        )
