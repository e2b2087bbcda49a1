"""One RankMixer block as a layer: its weights, and the choice of the fused op or TensorFlow's own operations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf
import tf_keras

from models.block_ops import BlockNorms, composed_block, token_networks
from models.dropout import Dropout
from models.initial import add_weight, glorot, ones, zeros
from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block

PAPER = BlockOptions()


class RankMixerBlock(tf_keras.layers.Layer):
    """One block: `[batch, T, D]` to the same; what it computes is said at the registration of the fused op.

    post_ln, the paper's: `S = LN(mix(X) + X)`, result `LN(FFN(S) + S)`. pre_rms: `U = X + mix(RMS(X))`, result
    `U + FFN(RMS(U))`. FFN of token t: `act(s W1_t + b1_t) W2_t + b2_t`, hidden width F = `expansion` · D, dropout on
    the hidden units.

    Weights in this order, which checkpoints rely on, the same for the fused and the composed form and whatever dtype
    the tokens have: gamma1 `[D]`, beta1 `[D]`, w1 `[T, D, F]`, b1 `[T, F]`, w2 `[T, F, D]`, b2 `[T, D]`, gamma2 `[D]`,
    beta2 `[D]`. With swiglu w1 and b1 are 2F wide; with pre_rms there are no betas.

    Args:
        options: What is computed; its dropout is the share while training.
        fused: Whether the fused op computes. Its dropout masks are others than those of the composed form.
        stream: Number of the worker: those of one job have different dropout masks.
    """

    def __init__(
        self,
        tokens: int,
        dim: int,
        *,
        expansion: int = 4,
        options: BlockOptions = PAPER,
        fused: bool = False,
        seed: int,
        stream: int = 0,
        name: str,
        dtype: str = "float32",
    ) -> None:
        if dim % tokens:
            raise ValueError(f"{name}: expected a number of tokens that divides dim {dim}, found {tokens}")
        # Keras would cast 16-bit tokens to the dtype of the weights.
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.options = options
        self.fused = fused
        self.plain_norm2 = False  # whether gamma2 is ones, beta2 zeros: export may have them in what reads the result
        hidden = expansion * dim
        inner = 2 * hidden if options.activation == "swiglu" else hidden
        shifted = options.norm == "post_ln"
        self.gamma1 = add_weight(self, "gamma1", (dim,), ones, seed)
        self.beta1 = add_weight(self, "beta1", (dim,), zeros, seed) if shifted else None
        self.w1 = add_weight(self, "w1", (tokens, dim, inner), glorot(dim, hidden), seed)
        self.b1 = add_weight(self, "b1", (tokens, inner), zeros, seed)
        self.w2 = add_weight(self, "w2", (tokens, hidden, dim), glorot(hidden, dim), seed)
        self.b2 = add_weight(self, "b2", (tokens, dim), zeros, seed)
        self.gamma2 = add_weight(self, "gamma2", (dim,), ones, seed)
        self.beta2 = add_weight(self, "beta2", (dim,), zeros, seed) if shifted else None
        self.dropout = Dropout(options.dropout, seed=seed, stream=stream, name=f"{name}/dropout")
        self.built = True

    def call(self, tokens: tf.Tensor, training: Any = None) -> tf.Tensor:
        weights = self._weights(tokens.dtype)
        if self.fused:
            dropping = bool(training) and self.options.dropout > 0
            return rankmixer_block(
                tokens,
                weights,
                self.options if dropping else replace(self.options, dropout=0.0),
                seed=self.dropout.next_seed() if dropping else None,
                keep=bool(training),
            )
        norms = BlockNorms(weights.gamma1, weights.beta1, weights.gamma2, weights.beta2)
        if self.plain_norm2:
            norms = norms._replace(gamma2=None, beta2=None)

        def drop(hidden: tf.Tensor) -> tf.Tensor:
            return self.dropout(hidden, training=training)

        return composed_block(
            tokens, norms, self.options, lambda mixed: token_networks(mixed, weights, self.options, drop)
        )

    def _weights(self, dtype: tf.DType) -> BlockWeights:
        """All weights as tensors of `dtype`; absent betas as `[0]`."""
        nothing = tf.zeros([0], dtype)
        weights = (self.gamma1, self.beta1, self.w1, self.b1, self.w2, self.b2, self.gamma2, self.beta2)
        return BlockWeights(*(nothing if weight is None else tf.cast(weight, dtype) for weight in weights))
