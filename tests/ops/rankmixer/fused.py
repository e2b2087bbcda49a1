"""Runs the fused block and its gradient on NumPy arrays, and says how far two results are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block
from tests.ops.rankmixer.reference import WEIGHTS, Array, Result


def rounded(values: Array, dtype: tf.DType) -> Array:
    """What `values` are once they are of `dtype`, as float64."""
    return tf.cast(tf.cast(tf.constant(values), dtype), tf.float64).numpy()


def run(
    x: Array,
    weights: dict[str, Array],
    options: BlockOptions,
    dy: Array,
    *,
    dtype: tf.DType = tf.float32,
    seed: tuple[int, int] | None = None,
    keep: bool = True,
) -> Result:
    """The op's own result; float64 arrays of numbers of `dtype`."""
    tokens = tf.cast(tf.constant(x), dtype)
    of = BlockWeights(**{name: tf.cast(tf.constant(weights[name]), dtype) for name in WEIGHTS})
    with tf.GradientTape() as tape:
        tape.watch([tokens, *of])
        chosen = None if seed is None else tf.constant(seed, tf.int64)
        y = rankmixer_block(tokens, of, options, seed=chosen, keep=keep)
    gradients = tape.gradient(y, [tokens, *of], output_gradients=tf.cast(tf.constant(dy), dtype))
    names = ("x", *WEIGHTS)
    return Result(_wide(y), {name: _wide(value) for name, value in zip(names, gradients)})


def _wide(tensor: Any) -> Array:
    return tf.cast(tensor, tf.float64).numpy()


def assert_close(found: Result, expected: Result, tolerance: float) -> None:
    """Each number is within `tolerance` times its own size and the root mean square of its array."""
    pairs = [("y", found.y, expected.y)]
    pairs += [(f"d{name}", found.gradients[name], expected.gradients[name]) for name in expected.gradients]
    for name, one, other in pairs:
        assert one.shape == other.shape, name
        if one.size:
            scale = np.sqrt(np.mean(other**2)) + 1e-3 + np.abs(other)
            worst = np.max(np.abs(one - other) / scale)
            assert worst <= tolerance, f"{name}: off by {worst:.1e} of its size"


def assert_same_bits(one: Result, other: Result) -> None:
    np.testing.assert_array_equal(one.y, other.y)
    for name in one.gradients:
        np.testing.assert_array_equal(one.gradients[name], other.gradients[name], err_msg=name)
