"""The formulas of a RankMixer block in TensorFlow's own operations, which the fused op is measured against.

16-bit values are products of 16-bit numbers only: sums, norms and activations are computed in float32 and rounded once,
as in the fused op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from ops.rankmixer_block import BlockOptions, BlockWeights

Network = Callable[[tf.Tensor], tf.Tensor]
"""The tokens' own networks: `[T, batch, D]` to the same."""


class BlockNorms(NamedTuple):
    """Weights of a block's two norms, `[D]` each; with `pre_rms` the betas are `[0]`. A gamma of None stands for ones,
    its beta for zeros: the step is left out."""

    gamma1: tf.Tensor | None
    beta1: tf.Tensor | None
    gamma2: tf.Tensor | None
    beta2: tf.Tensor | None


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


def wide(values: tf.Tensor) -> tf.Tensor:
    """16-bit values as float32, others as they are."""
    return tf.cast(values, tf.float32) if values.dtype.size == 2 else values


def layer_norm(values: tf.Tensor, gamma: tf.Tensor | None, beta: tf.Tensor | None, epsilon: float) -> tf.Tensor:
    """`gamma * (x - mean) / sqrt(variance + epsilon) + beta` over the last axis, with the biased variance."""
    centred = values - tf.reduce_mean(values, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    normed = centred * tf.math.rsqrt(variance + epsilon)
    return normed if gamma is None else normed * gamma + beta


def rms_norm(values: tf.Tensor, gamma: tf.Tensor | None, epsilon: float) -> tf.Tensor:
    """`gamma * x / sqrt(mean of x² + epsilon)` over the last axis."""
    normed = values * tf.math.rsqrt(tf.reduce_mean(tf.square(values), axis=-1, keepdims=True) + epsilon)
    return normed if gamma is None else normed * gamma


def gelu(values: tf.Tensor, kind: str) -> tf.Tensor:
    """GELU, `gelu` by the error function or `gelu_tanh` by its approximation (arXiv 1606.08415).

    Not `tf.nn.gelu`: its constants have float32 precision for float64 values too.
    """
    if kind == "gelu":
        return 0.5 * values * (1.0 + tf.math.erf(values * math.sqrt(0.5)))
    cubic = values + 0.044715 * values * values * values
    return 0.5 * values * (1.0 + tf.tanh(math.sqrt(2.0 / math.pi) * cubic))


def activate(inner: tf.Tensor, kind: str) -> tf.Tensor:
    """Hidden units `[..., F]` of `[..., F]`, with `swiglu` of `[..., 2F]`: silu of the first half times the second."""
    if kind != "swiglu":
        return gelu(inner, kind)
    gate, value = tf.split(inner, 2, axis=-1)
    return gate * tf.sigmoid(gate) * value


def composed_block(tokens: tf.Tensor, norms: BlockNorms, options: BlockOptions, network: Network) -> tf.Tensor:
    """One block around the tokens' own networks: `[batch, T, D]` to the same, of the tokens' dtype.

    The network sees tokens first: a product for each token is then one batched product, the fastest composed form.
    """
    dtype = tokens.dtype
    gamma1, beta1, gamma2, beta2 = (None if weight is None else wide(weight) for weight in norms)
    if options.norm == "post_ln":
        mixed = layer_norm(wide(mix(tokens)) + wide(tokens), gamma1, beta1, options.epsilon)
        mixed = tf.cast(tf.transpose(mixed, [1, 0, 2]), dtype)
        result = layer_norm(wide(network(mixed)) + wide(mixed), gamma2, beta2, options.epsilon)
    else:
        normed = tf.cast(rms_norm(wide(tokens), gamma1, options.epsilon), dtype)
        mixed = tf.transpose(wide(tokens) + wide(mix(normed)), [1, 0, 2])
        result = mixed + wide(network(tf.cast(rms_norm(mixed, gamma2, options.epsilon), dtype)))
    return tf.transpose(tf.cast(result, dtype), [1, 0, 2])


def token_networks(
    tokens: tf.Tensor, weights: BlockWeights, options: BlockOptions, drop: Network = lambda hidden: hidden
) -> tf.Tensor:
    """`act(s w1_t + b1_t) w2_t + b2_t` of each token t: `[T, batch, D]` to the same; `drop` acts on hidden units."""
    inner = wide(tf.matmul(tokens, weights.w1)) + wide(weights.b1)[:, tf.newaxis, :]
    hidden = tf.cast(drop(activate(inner, options.activation)), tokens.dtype)
    return tf.cast(wide(tf.matmul(hidden, weights.w2)) + wide(weights.b2)[:, tf.newaxis, :], tokens.dtype)
