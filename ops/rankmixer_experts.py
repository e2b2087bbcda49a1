"""The gated sum of each token's sparse experts as a typed Python function with a gradient."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ops.library import load_rankmixer

_SETTINGS = ("activation", "dropout", "tokens_first")


def sparse_experts(
    tokens: tf.Tensor,
    gates: tf.Tensor,
    w1: tf.Tensor,
    b1: tf.Tensor,
    w2: tf.Tensor,
    b2: tf.Tensor,
    *,
    activation: str = "gelu",
    dropout: float = 0.0,
    seed: tf.Tensor | None = None,
    tokens_first: bool = False,
    keep: bool = True,
) -> tf.Tensor:
    """`sum over e of gates[b, t, e] · FFN_te(tokens[b, t])` with `FFN_te(s) = act(s w1_te + b1_te) w2_te + b2_te`.

    Experts are computed for the rows whose gate is not 0, so that time follows the share of those. The gradient of a
    gate of 0 is given as 0, which is exact for gates that are a ReLU's result: it passes none on there. Bits do not
    depend on the number of threads.

    Args:
        tokens: `[batch, T, D]`; float32, bfloat16 or float16, sums are float32.
        gates: `[batch, T, E]`; float32, others are cast.
        w1: `[T, E, D, H]`, with `activation="swiglu"` 2H wide; like all weights of the tokens' dtype.
        b1: `[T, E, H]`, with swiglu 2H wide.
        w2: `[T, E, H, D]`.
        b2: `[T, E, D]`.
        activation: `gelu`, `gelu_tanh` or `swiglu`.
        dropout: Share of hidden units set to 0, the others are scaled by 1 / (1 - dropout).
        seed: int64 `[2]`, decides which; needed with `dropout` above 0.
        tokens_first: tokens and gates are, and the result is, `[T, batch, ...]`.
        keep: Whether H (swiglu: 2H) numbers for each gate that is not 0 are kept for the gradient; without, it computes
            them again. False where no gradient is wanted.

    Returns:
        Like tokens.

    Raises:
        LibraryError: the op library is not there, or does not load.
        tf.errors.InvalidArgumentError: shapes that do not fit; names the input, what was expected and found.
    """
    if dropout > 0 and seed is None:
        raise ValueError(f"seed: expected int64 [2] with dropout {dropout}, found none")
    if seed is None:
        seed = tf.zeros([2], tf.int64)
    y, _ = load_rankmixer().ps_cluster_sparse_experts(
        tokens,
        tf.cast(gates, tf.float32),
        w1,
        b1,
        w2,
        b2,
        seed,
        activation=activation,
        dropout=dropout,
        tokens_first=tokens_first,
        keep=keep,
    )
    return y


@tf.RegisterGradient("PsClusterSparseExperts")
def _gradient(op: Any, dy: tf.Tensor, _: Any) -> list[tf.Tensor | None]:
    *inputs, seed = op.inputs
    gradients = load_rankmixer().ps_cluster_sparse_experts_grad(
        dy, *inputs, seed, op.outputs[1], **{name: op.get_attr(name) for name in _SETTINGS}
    )
    return [*gradients, None]


@tf.RegisterGradient("PsClusterSparseExpertsGrad")
def _second_gradient(*_: Any) -> list[tf.Tensor | None]:
    raise NotImplementedError("the sparse experts have no second derivative; use the composed ones for one")
