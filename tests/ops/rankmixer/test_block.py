"""The fused block and its gradients against float64, over shapes, options and types."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block
from tests.ops.rankmixer.fused import assert_close, assert_same_bits, rounded, run
from tests.ops.rankmixer.reference import WEIGHTS, block, example

NORMS = ["post_ln", "pre_rms"]
ACTIVATIONS = ["gelu", "gelu_tanh", "swiglu"]
# Largest error of a number, in units of its size and the root mean square of its array. With 16 bits the result itself
# is rounded, and so is what the gradient finds kept.
TOLERANCES = {tf.float32: 3e-5, tf.float16: 1.5e-2, tf.bfloat16: 1e-1}
TYPES = list(TOLERANCES)
SEED = (3, -5)


def steady(options: BlockOptions, dim: int) -> BlockOptions:
    """`options` under which float32 can be held to a tolerance in rows of `dim` numbers.

    The numbers of a short row can all be alike, and the norm then multiplies the error of their difference; and its
    gradient is the small difference of large numbers (of two numbers, epsilon / (variance + epsilon) of each).
    """
    return replace(options, epsilon=0.05) if dim < 16 else options


def check(
    batch: int, tokens: int, head: int, expansion: int, options: BlockOptions, dtype: tf.DType, keep: bool = True
) -> None:
    dim = tokens * head
    options = steady(options, dim)
    x, weights, dy = example(batch, tokens, dim, expansion * dim, options)
    x, dy = rounded(x, dtype), rounded(dy, dtype)
    weights = {name: rounded(value, dtype) for name, value in weights.items()}
    found = run(x, weights, options, dy, dtype=dtype, seed=SEED, keep=keep)
    assert_close(found, block(x, weights, options, dy, SEED), TOLERANCES[dtype])


@pytest.mark.parametrize(("batch", "tokens", "head", "expansion"), [(7, 4, 3, 4), (300, 4, 8, 1), (33, 16, 8, 4)])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_block_and_gradients_are_those_of_the_formulas(
    batch: int, tokens: int, head: int, expansion: int, norm: str, activation: str, dtype: tf.DType
) -> None:
    check(batch, tokens, head, expansion, BlockOptions(norm, activation), dtype)


SHAPES = list(itertools.product([0, 1, 7, 512], [1, 4, 16, 32], [1, 3, 8, 48], [1, 4]))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("norm", NORMS)
def test_every_shape_of_a_small_block(norm: str, dtype: tf.DType) -> None:
    for batch, tokens, head, expansion in SHAPES:
        if max(batch, 20) * tokens * (tokens * head) ** 2 * expansion <= 2_000_000:
            check(batch, tokens, head, expansion, BlockOptions(norm), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_every_shape(norm: str, activation: str, dtype: tf.DType) -> None:
    for batch, tokens, head, expansion in SHAPES:
        # Larger ones take the reference minutes.
        if max(batch, 20) * tokens * (tokens * head) ** 2 * expansion <= 100_000_000:
            check(batch, tokens, head, expansion, BlockOptions(norm, activation), dtype)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batch=st.integers(0, 70),
    tokens=st.integers(1, 9),
    head=st.integers(1, 11),
    hidden=st.integers(1, 70),
    norm=st.sampled_from(NORMS),
    activation=st.sampled_from(ACTIVATIONS),
    dropout=st.sampled_from([0.0, 0.1, 0.9]),
    seed=st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    keep=st.booleans(),
)
def test_any_shape(
    batch: int,
    tokens: int,
    head: int,
    hidden: int,
    norm: str,
    activation: str,
    dropout: float,
    seed: tuple[int, int],
    keep: bool,
) -> None:
    options = steady(BlockOptions(norm, activation, epsilon=1e-3, dropout=dropout), tokens * head)
    x, weights, dy = example(batch, tokens, tokens * head, hidden, options, seed=hidden)
    found = run(x, weights, options, dy, seed=seed, keep=keep)
    assert_close(found, block(x, weights, options, dy, seed), 1e-4)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_without_keep_all_bits_are_the_same(norm: str, activation: str, dtype: tf.DType) -> None:
    options = BlockOptions(norm, activation, dropout=0.2)
    x, weights, dy = example(290, 4, 24, 50, options)
    kept = run(x, weights, options, dy, dtype=dtype, seed=SEED)
    assert_same_bits(kept, run(x, weights, options, dy, dtype=dtype, seed=SEED, keep=False))
    assert kept.gradients["w1"].any()


@pytest.mark.parametrize("norm", NORMS)
def test_numeric_gradient_of_the_op_itself(norm: str) -> None:
    options = BlockOptions(norm, "gelu", epsilon=1e-2)
    x, weights, _ = example(2, 2, 4, 5, options)
    inputs = [tf.constant(value, tf.float32) for value in (x, *(weights[name] for name in WEIGHTS)) if value.size]

    def result(*values: tf.Tensor) -> tf.Tensor:
        x, gamma1, *rest = values
        if norm == "pre_rms":
            none = tf.zeros([0])
            rest = [none, *rest, none]
        return rankmixer_block(x, BlockWeights(gamma1, *rest), options)

    for analytic, numeric in zip(*tf.test.compute_gradient(result, inputs, delta=2**-7)):
        np.testing.assert_allclose(analytic, numeric, atol=5e-3)


def test_dropped_units_depend_on_seed_token_and_row_only() -> None:
    options = BlockOptions("post_ln", "gelu", dropout=0.5)
    x, weights, dy = example(40, 4, 16, 64, options)
    whole = run(x, weights, options, dy, seed=SEED)
    np.testing.assert_array_equal(run(x[:7], weights, options, dy[:7], seed=SEED).y, whole.y[:7])
    assert (run(x, weights, options, dy, seed=(3, -4)).y != whole.y).any(axis=-1).all()


def test_share_of_dropped_units_is_the_rate() -> None:
    # With w1 = 0, b1 = 10 and w2 the identity, y - u is the hidden units: 0 or 10 / (1 - rate).
    tokens, dim, rate = 4, 256, 0.3
    zeros = tf.zeros([tokens, dim, dim])
    eye = tf.eye(dim, batch_shape=[tokens])
    none = tf.zeros([0])
    weights = BlockWeights(
        tf.ones([dim]), none, zeros, tf.fill([tokens, dim], 10.0), eye, tf.zeros([tokens, dim]), tf.ones([dim]), none
    )
    options = BlockOptions("pre_rms", dropout=rate)
    y = rankmixer_block(tf.zeros([200, tokens, dim]), weights, options, seed=tf.constant([1, 2], tf.int64)).numpy()
    assert set(np.unique(np.round(y, 3))) == {0.0, np.float32(np.round(10 / 0.7, 3))}
    dropped = y == 0
    deviation = np.sqrt(rate * (1 - rate) / dropped.size)
    assert abs(dropped.mean() - rate) < 5 * deviation
    # Neither a row, a token, nor a unit is dropped more often than another.
    for axes in [(1, 2), (0, 2), (0, 1)]:
        shares = dropped.mean(axis=axes)
        bound = 5 * np.sqrt(rate * (1 - rate) * shares.size / dropped.size)
        assert np.abs(shares - rate).max() < bound
