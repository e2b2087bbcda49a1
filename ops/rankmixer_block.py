"""The fused RankMixer block as a typed Python function with a gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from ops.library import load_rankmixer

_SETTINGS = ("norm", "activation", "epsilon", "dropout")


class BlockWeights(NamedTuple):
    """Weights of one block, T tokens of width D, hidden width F; all of the dtype of the tokens.

    gamma1, gamma2: `[D]`. beta1, beta2: `[D]`, with `norm: pre_rms` `[0]`. w1: `[T, D, F]`, b1 `[T, F]`, with
    `activation: swiglu` 2F instead of F. w2: `[T, F, D]`. b2: `[T, D]`.
    """

    gamma1: tf.Tensor
    beta1: tf.Tensor
    w1: tf.Tensor
    b1: tf.Tensor
    w2: tf.Tensor
    b2: tf.Tensor
    gamma2: tf.Tensor
    beta2: tf.Tensor


@dataclass(frozen=True)
class BlockOptions:
    """What a block computes; the formulas are in the registration of the op.

    norm: `post_ln` or `pre_rms`. activation: `gelu`, `gelu_tanh` or `swiglu`. dropout: share of hidden units.
    """

    norm: str = "post_ln"
    activation: str = "gelu"
    epsilon: float = 1e-6
    dropout: float = 0.0


def rankmixer_block(
    tokens: tf.Tensor,
    weights: BlockWeights,
    options: BlockOptions,
    *,
    seed: tf.Tensor | None = None,
    keep: bool = True,
) -> tf.Tensor:
    """One block: `[batch, T, D]` to the same; float32, bfloat16 or float16 with float32 accumulation.

    Args:
        seed: int64 `[2]`, decides which hidden units are dropped; needed with `options.dropout` above 0.
        keep: Whether T · (inner + D) numbers per row are kept for the gradient, inner being F (2F with swiglu);
            without, the gradient computes them again. False where no gradient is wanted.

    Raises:
        LibraryError: the op library is not there, or does not load.
        tf.errors.InvalidArgumentError: shapes that do not fit; names the input, what was expected and found.
    """
    if options.dropout > 0 and seed is None:
        raise ValueError(f"seed: expected int64 [2] with dropout {options.dropout}, found none")
    if seed is None:
        seed = tf.zeros([2], tf.int64)
    y, _, _ = load_rankmixer().ps_cluster_rankmixer_block(
        tokens,
        *weights,
        seed,
        norm=options.norm,
        activation=options.activation,
        epsilon=options.epsilon,
        dropout=options.dropout,
        keep=keep,
    )
    return y


@tf.RegisterGradient("PsClusterRankmixerBlock")
def _gradient(op: Any, dy: tf.Tensor, *_: Any) -> list[tf.Tensor | None]:
    *inputs, seed = op.inputs
    gradients = load_rankmixer().ps_cluster_rankmixer_block_grad(
        dy, *inputs, seed, *op.outputs[1:], **{name: op.get_attr(name) for name in _SETTINGS}
    )
    return [*gradients, None]


@tf.RegisterGradient("PsClusterRankmixerBlockGrad")
def _second_gradient(*_: Any) -> list[tf.Tensor | None]:
    raise NotImplementedError("the fused RankMixer block has no second derivative; use the composed block for one")
