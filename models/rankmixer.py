"""RankMixer (arXiv 2507.15551): tokens mix by a fixed permutation, then each has a network of its own.

The paper leaves open, and here is chosen: LayerNorm's scale and shift are shared by the tokens and its
epsilon is 1e-6, GELU is exact (both are options), weights start Glorot-uniform per token, biases at 0. With `pre_rms`
the last block's tokens are normed once more before their mean is taken, since nothing else bounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from models.block_ops import rms_norm
from models.config import RankMixerConfig
from models.experts import ExpertsBlock
from models.head import ClickHead
from models.initial import add_weight, ones
from models.rankmixer_block import RankMixerBlock
from models.sparsity import SparsityControl, TrainingCall, count_active
from models.tokenizer import Tokenizer
from ops.rankmixer_block import BlockOptions


def block_options(config: RankMixerConfig) -> BlockOptions:
    """What the blocks of a configuration compute."""
    tanh = config.activation == "gelu" and config.gelu == "tanh"
    return BlockOptions(
        norm=config.norm,
        activation="gelu_tanh" if tanh else config.activation,
        epsilon=config.epsilon,
        dropout=config.dropout,
    )


class RankMixer(tf_keras.layers.Layer):
    """Tokeniser, blocks, mean of tokens, head: matrices `[batch, widths[i]]` to logits float32 `[batch, 1]`.

    Between tokeniser and mean the tokens are of the configured precision; weights are float32 in any case.
    """

    def __init__(
        self,
        widths: Sequence[int],
        config: RankMixerConfig,
        groups: Sequence[Sequence[int]] | None,
        *,
        fused: bool = False,
        seed: int,
        stream: int = 0,
        name: str = "rankmixer",
    ) -> None:
        """`groups`: as `config.groups`, but indices into `widths`."""
        super().__init__(name=name)
        tokens, dim, options = config.tokens, config.dim, block_options(config)
        self.precision = config.precision
        self.epsilon = config.epsilon
        self.tokenizer = Tokenizer(widths, tokens, dim, groups, seed=seed, name=f"{name}/tokenizer")
        self.sparsity = None
        self.both_paths = False
        if config.experts is None:
            self.blocks = [
                RankMixerBlock(
                    tokens,
                    dim,
                    expansion=config.expansion,
                    options=options,
                    fused=fused,
                    seed=seed,
                    stream=stream,
                    name=f"{name}/block_{index}",
                )
                for index in range(config.layers)
            ]
        else:
            experts = config.experts
            self.both_paths = experts.dense_training
            self.blocks = [
                ExpertsBlock(
                    tokens,
                    dim,
                    experts=experts.count,
                    hidden=config.expert_hidden,
                    dense_router=experts.dense_training,
                    options=options,
                    fused=fused,
                    seed=seed,
                    stream=stream,
                    name=f"{name}/block_{index}",
                )
                for index in range(config.layers)
            ]
            self.sparsity = SparsityControl(
                experts.target_active, experts.penalty_start, experts.penalty_factor, name=f"{name}/sparsity"
            )
        self.plain_final_norm = False  # whether final_gamma is ones: export may have it in the head
        self.final_gamma = add_weight(self, "final_gamma", (dim,), ones, seed) if config.norm == "pre_rms" else None
        self.head = ClickHead(dim, seed=seed, name=f"{name}/click")
        self.built = True

    def call(self, matrices: Sequence[tf.Tensor], training: Any = None) -> tf.Tensor:
        return self.training_call(matrices).logits[:, :1] if training else self._pass(matrices, False, False)[0]

    def training_call(self, matrices: Sequence[tf.Tensor]) -> TrainingCall:
        """With a dense router the logits' second column are those by its gates."""
        logits, gates = self._pass(matrices, True, self.both_paths)
        if self.both_paths:
            logits = tf.concat(tf.split(logits, 2, axis=0), axis=1)
        if self.sparsity is None:
            return TrainingCall(logits)
        return TrainingCall(logits, self.sparsity.penalty(gates), count_active(gates))

    def _pass(
        self, matrices: Sequence[tf.Tensor], training: bool, both_paths: bool
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Logits, and the gates of each block with experts. With `both_paths` there are twice as many rows."""
        tokens = tf.cast(self.tokenizer(matrices), self.precision)
        if both_paths:
            tokens = tf.concat([tokens, tokens], axis=0)
        gates = []
        for block in self.blocks:
            if isinstance(block, ExpertsBlock):
                tokens, of_block = block(tokens, training=training, both_paths=both_paths)
                gates.append(of_block)
            else:
                tokens = block(tokens, training=training)
        tokens = tf.cast(tokens, tf.float32)
        if self.final_gamma is not None:
            tokens = rms_norm(tokens, None if self.plain_final_norm else self.final_gamma, self.epsilon)
        return self.head(tf.reduce_mean(tokens, axis=1)), gates
