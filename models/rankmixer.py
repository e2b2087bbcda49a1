"""RankMixer (arXiv 2507.15551): tokens mix by a fixed permutation, then each has a network of its own.

The paper leaves open, and here is chosen: LayerNorm's scale and shift are shared by the tokens and its
epsilon is 1e-6, GELU is exact (both are options), weights start Glorot-uniform per token, biases at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from models.dropout import Dropout
from models.head import ClickHead
from models.initial import add_weight, glorot, ones, zeros
from models.tokenizer import Tokenizer


def mix(tokens: tf.Tensor) -> tf.Tensor:
    """Multi-head token mixing: `[batch, T, D]` to `[batch, T, D]`, D a multiple of T.

    Every token is cut into H = T heads; new token h is head h of all old tokens, in order. Without
    parameters, and its own
    inverse, so also its own gradient:

        T = 2, D = 4:   a b c d   ->   a b e f
                        e f g h        c d g h
    """
    count, dim = tokens.shape[1], tokens.shape[2]
    heads = tf.reshape(tokens, [-1, count, count, dim // count])
    return tf.reshape(tf.transpose(heads, [0, 2, 1, 3]), [-1, count, dim])


def layer_norm(values: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """`gamma * (x - mean) / sqrt(variance + epsilon) + beta` over the last axis, with the biased variance."""
    centred = values - tf.reduce_mean(values, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return centred * tf.math.rsqrt(variance + epsilon) * gamma + beta


def gelu(values: tf.Tensor, kind: str) -> tf.Tensor:
    """GELU, `exact` by the error function or `tanh` by its approximation (arXiv 1606.08415).

    Not `tf.nn.gelu`: its constants have float32 precision for float64 values too.
    """
    if kind == "exact":
        return 0.5 * values * (1.0 + tf.math.erf(values * math.sqrt(0.5)))
    cubic = values + 0.044715 * values * values * values
    return 0.5 * values * (1.0 + tf.tanh(math.sqrt(2.0 / math.pi) * cubic))


class RankMixerBlock(tf_keras.layers.Layer):
    """One block, post-LN: `S = LN(mix(X) + X)`, result `LN(FFN(S) + S)`; `[batch, T, D]` to the same.

    FFN of token t: `GELU(s W1_t + b1_t) W2_t + b2_t`, hidden width F = `expansion` · D; dropout on the hidden
    units.

    Weights in this order, which checkpoints and any other implementation of `call` rely on: gamma1 `[D]`,
    beta1 `[D]`, w1 `[T, D, F]`, b1 `[T, F]`, w2 `[T, F, D]`, b2 `[T, D]`, gamma2 `[D]`, beta2 `[D]`.
    """

    def __init__(
        self,
        tokens: int,
        dim: int,
        *,
        expansion: int = 4,
        gelu: str = "exact",
        epsilon: float = 1e-6,
        dropout: float = 0.0,
        seed: int,
        stream: int = 0,
        name: str,
        dtype: str = "float32",
    ) -> None:
        if dim % tokens:
            raise ValueError(f"{name}: expected a number of tokens that divides dim {dim}, found {tokens}")
        super().__init__(name=name, dtype=dtype)
        hidden = expansion * dim
        self.gelu = gelu
        self.epsilon = epsilon
        self.gamma1 = add_weight(self, "gamma1", (dim,), ones, seed)
        self.beta1 = add_weight(self, "beta1", (dim,), zeros, seed)
        self.w1 = add_weight(self, "w1", (tokens, dim, hidden), glorot(dim, hidden), seed)
        self.b1 = add_weight(self, "b1", (tokens, hidden), zeros, seed)
        self.w2 = add_weight(self, "w2", (tokens, hidden, dim), glorot(hidden, dim), seed)
        self.b2 = add_weight(self, "b2", (tokens, dim), zeros, seed)
        self.gamma2 = add_weight(self, "gamma2", (dim,), ones, seed)
        self.beta2 = add_weight(self, "beta2", (dim,), zeros, seed)
        self.dropout = Dropout(dropout, seed=seed, stream=stream, name=f"{name}/dropout")
        self.built = True

    def call(self, tokens: tf.Tensor, training: Any = None) -> tf.Tensor:
        mixed = layer_norm(mix(tokens) + tokens, self.gamma1, self.beta1, self.epsilon)
        # Tokens first: the tokens' networks are then one batched product, the fastest of the composed forms.
        mixed = tf.transpose(mixed, [1, 0, 2])
        hidden = tf.matmul(mixed, self.w1) + self.b1[:, tf.newaxis, :]
        hidden = self.dropout(gelu(hidden, self.gelu), training=training)
        output = tf.matmul(hidden, self.w2) + self.b2[:, tf.newaxis, :]
        result = layer_norm(output + mixed, self.gamma2, self.beta2, self.epsilon)
        return tf.transpose(result, [1, 0, 2])


class RankMixer(tf_keras.layers.Layer):
    """Tokeniser, blocks, mean of tokens, head: matrices `[batch, widths[i]]` to logits `[batch, 1]`."""

    def __init__(
        self,
        widths: Sequence[int],
        *,
        tokens: int,
        dim: int,
        layers: int,
        expansion: int,
        gelu: str,
        epsilon: float,
        dropout: float,
        groups: Sequence[Sequence[int]] | None,
        seed: int,
        stream: int = 0,
        name: str = "rankmixer",
    ) -> None:
        super().__init__(name=name)
        self.tokenizer = Tokenizer(widths, tokens, dim, groups, seed=seed, name=f"{name}/tokenizer")
        self.blocks = [
            RankMixerBlock(
                tokens,
                dim,
                expansion=expansion,
                gelu=gelu,
                epsilon=epsilon,
                dropout=dropout,
                seed=seed,
                stream=stream,
                name=f"{name}/block_{index}",
            )
            for index in range(layers)
        ]
        self.head = ClickHead(dim, seed=seed, name=f"{name}/click")
        self.built = True

    def call(self, matrices: Sequence[tf.Tensor], training: Any = None) -> tf.Tensor:
        tokens = self.tokenizer(matrices)
        for block in self.blocks:
            tokens = block(tokens, training=training)
        return self.head(tf.reduce_mean(tokens, axis=1))
