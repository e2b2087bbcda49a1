"""Runs the sparse experts' op and its gradient on NumPy arrays, and says how far from the reference a result may be."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ops.rankmixer_experts import sparse_experts
from tests.ops.rankmixer.experts_reference import INPUTS, Options
from tests.ops.rankmixer.fused import assert_close, rounded
from tests.ops.rankmixer.reference import Array, Result

WORST = {tf.float32: 3e-5, tf.float16: 2e-2, tf.bfloat16: 2e-1}
"""Largest error of a number, in units of the root mean square of its array. A weight's gradient can be many times that,
where its expert has few rows, and in bfloat16 be off by a hundredth of itself."""
MEAN = {tf.float32: 5e-6, tf.float16: 2e-3, tf.bfloat16: 1e-2}
"""Root mean square of the errors, in the same units: a few roundings."""


def run(
    inputs: dict[str, Array],
    options: Options,
    dy: Array,
    *,
    dtype: tf.DType = tf.float32,
    seed: tuple[int, int] | None = None,
    keep: bool = True,
    tokens_first: bool = False,
) -> Result:
    """The op's own result; float64 arrays, batch first whatever `tokens_first`."""

    def turned(values: Array) -> Array:
        return values.swapaxes(0, 1) if tokens_first else values

    of = {
        name: tf.cast(
            tf.constant(turned(value) if name in ("tokens", "gates") else value),
            tf.float32 if name == "gates" else dtype,
        )
        for name, value in inputs.items()
    }
    with tf.GradientTape() as tape:
        tape.watch(of)
        y = sparse_experts(
            **of,
            activation=options.activation,
            dropout=options.dropout,
            seed=None if seed is None else tf.constant(seed, tf.int64),
            keep=keep,
            tokens_first=tokens_first,
        )
    gradients = tape.gradient(y, of, output_gradients=tf.cast(tf.constant(turned(dy)), dtype))
    assert y.dtype == dtype and all(gradients[name].dtype == of[name].dtype for name in INPUTS)
    wide = {name: tf.cast(value, tf.float64).numpy() for name, value in gradients.items()}
    wide |= {name: turned(wide[name]) for name in ("tokens", "gates")}
    return Result(turned(tf.cast(y, tf.float64).numpy()), wide)


def in_dtype(inputs: dict[str, Array], dtype: tf.DType) -> dict[str, Array]:
    """What the inputs are once they are of `dtype`; gates are float32 in any case."""
    return {name: value if name == "gates" else rounded(value, dtype) for name, value in inputs.items()}


def assert_near(found: Result, expected: Result, dtype: tf.DType) -> None:
    assert_close(found, expected, WORST[dtype])
    for name, wanted in {"y": expected.y, **expected.gradients}.items():
        error = (found.y if name == "y" else found.gradients[name]) - wanted
        if error.size:
            off = np.sqrt(np.mean(error**2)) / (np.sqrt(np.mean(wanted**2)) + 1e-3)
            assert off <= MEAN[dtype], f"{name}: off by {off:.1e} of its size on average"


def finite(result: Result) -> bool:
    return all(np.isfinite(value).all() for value in (result.y, *result.gradients.values()))
