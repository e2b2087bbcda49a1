"""What is not a number, what is wrong, and what has no second derivative."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import psutil
import pytest
import tensorflow as tf

from ops.library import load_rankmixer
from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block
from tests.ops.rankmixer.fused import run
from tests.ops.rankmixer.reference import WEIGHTS, example


def inputs(options: BlockOptions, batch: int = 6, tokens: int = 4, dim: int = 12) -> tuple[tf.Tensor, BlockWeights]:
    x, weights, _ = example(batch, tokens, dim, 2 * dim, options)
    return tf.constant(x, tf.float32), BlockWeights(*(tf.constant(weights[name], tf.float32) for name in WEIGHTS))


@pytest.mark.parametrize("norm", ["post_ln", "pre_rms"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_own_row_only(norm: str, bad: float) -> None:
    options = BlockOptions(norm)
    x, weights, dy = example(40, 4, 12, 30, options)
    clean = run(x, weights, options, dy)
    spoilt = x.copy()
    spoilt[17, 2, 5] = bad
    result = run(spoilt, weights, options, dy)
    others = np.arange(40) != 17
    np.testing.assert_array_equal(result.y[others], clean.y[others])
    np.testing.assert_array_equal(result.gradients["x"][others], clean.gradients["x"][others])
    # Number 5 of token 2 is also of token 1, where its head goes.
    assert not np.isfinite(result.y[17, 1:3]).any()
    assert not np.isfinite(result.gradients["w1"][1:3]).any()
    dy[3, 1, 1] = bad
    spoilt = run(x, weights, options, dy).gradients["x"]
    assert not np.isfinite(spoilt[3]).all()
    np.testing.assert_array_equal(
        spoilt[others & (np.arange(40) != 3)], clean.gradients["x"][others & (np.arange(40) != 3)]
    )


OTHER = {
    "x": ([6, 4], "x: expected the shape \\[batch, tokens, dim\\], found \\[6,4\\]"),
    "gamma1": ([11], "gamma1: expected the shape \\[12\\], found \\[11\\]"),
    "beta1": ([0], "beta1: expected the shape \\[12\\], found \\[0\\]"),
    "w1": ([4, 12, 25], "w1: expected the shape \\[4,12,24\\], found \\[4,12,25\\]"),
    "b1": ([4, 25], "b1: expected the shape \\[4,24\\], found \\[4,25\\]"),
    "w2": ([24, 12], "w2: expected the shape \\[tokens, hidden, dim\\], found \\[24,12\\]"),
    "b2": ([12], "b2: expected the shape \\[4,12\\], found \\[12\\]"),
    "gamma2": ([12, 1], "gamma2: expected the shape \\[12\\], found \\[12,1\\]"),
    "beta2": ([13], "beta2: expected the shape \\[12\\], found \\[13\\]"),
}


@pytest.mark.parametrize("name", OTHER)
def test_input_of_another_shape_is_named(name: str) -> None:
    options = BlockOptions()
    x, weights = inputs(options)
    shape, message = OTHER[name]
    if name == "x":
        x = tf.zeros(shape)
    else:
        weights = weights._replace(**{name: tf.zeros(shape)})
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        rankmixer_block(x, weights, options)

    # The same where shapes are not known before values are there.
    @tf.function(input_signature=[tf.TensorSpec(None)] * 9)
    def unknown(x: tf.Tensor, *of: tf.Tensor) -> tf.Tensor:
        return rankmixer_block(x, BlockWeights(*of), options)

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        unknown(x, *weights)


def test_tokens_that_do_not_divide_the_width_are_refused() -> None:
    options = BlockOptions()
    _, weights = inputs(options)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="x: expected a number of tokens that divides the width 12, found 5"
    ):
        rankmixer_block(tf.zeros([2, 5, 12]), weights, options)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_dropout_out_of_range_is_refused(dropout: float) -> None:
    options = BlockOptions(dropout=dropout)
    x, weights = inputs(options)
    with pytest.raises(tf.errors.InvalidArgumentError, match="dropout: expected a share from 0 to below 1, found"):
        rankmixer_block(x, weights, options, seed=tf.zeros([2], tf.int64))


@pytest.mark.parametrize("epsilon", [0.0, -1e-6, float("nan"), float("inf")])
def test_epsilon_that_is_not_positive_is_refused(epsilon: float) -> None:
    options = BlockOptions(epsilon=epsilon)
    x, weights = inputs(options)
    with pytest.raises(tf.errors.InvalidArgumentError, match="epsilon: expected a number above 0, found"):
        rankmixer_block(x, weights, options)


def test_dropout_needs_a_seed_of_two_numbers() -> None:
    options = BlockOptions(dropout=0.5)
    x, weights = inputs(options)
    with pytest.raises(ValueError, match=r"seed: expected int64 \[2\] with dropout 0\.5, found none"):
        rankmixer_block(x, weights, options)
    with pytest.raises(tf.errors.InvalidArgumentError, match="seed: expected the shape \\[2\\], found \\[3\\]"):
        rankmixer_block(x, weights, options, seed=tf.zeros([3], tf.int64))


def test_types_may_not_be_mixed() -> None:
    options = BlockOptions()
    x, weights = inputs(options)
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
        rankmixer_block(x, weights._replace(w2=tf.cast(weights.w2, tf.float16)), options)


@pytest.mark.parametrize(
    ("inner", "total"), [([4, 6, 24], [0, 0, 0]), ([4, 5, 24], [4, 6, 12]), ([0, 0, 0], [4, 6, 12])]
)
def test_gradient_refuses_what_was_kept_of_another_block(inner: list[int], total: list[int]) -> None:
    options = BlockOptions()
    x, weights = inputs(options)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"kept_(inner|sum): expected the shape \[4,6,"):
        load_rankmixer().ps_cluster_rankmixer_block_grad(
            x, x, *weights, tf.zeros([2], tf.int64), tf.zeros(inner), tf.zeros(total)
        )


def test_second_derivative_is_an_error() -> None:
    options = BlockOptions()
    x, weights = inputs(options)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = rankmixer_block(x, weights, options)
        gradient = tape.gradient(y, x)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        outer.gradient(gradient, x)


def test_persistent_tape_gives_the_same_gradient_twice() -> None:
    options = BlockOptions(dropout=0.5)
    x, weights = inputs(options)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, *weights])
        y = rankmixer_block(x, weights, options, seed=tf.constant([1, 2], tf.int64))
    for one, other in zip(tape.gradient(y, [x, *weights]), tape.gradient(y, [x, *weights])):
        np.testing.assert_array_equal(one, other)


def test_function_of_any_batch_is_traced_once() -> None:
    options = BlockOptions()
    x, weights = inputs(options)

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 12])])
    def step(tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            y = rankmixer_block(tokens, weights, options)
            assert y.shape.as_list() == [None, 4, 12]
        return y, tape.gradient(y, tokens)

    whole = step(x)
    for batch in (0, 1, 5):
        for part, of in zip(step(x[:batch]), whole):
            np.testing.assert_array_equal(part, of[:batch])
    assert step.experimental_get_tracing_count() == 1


def grown_bytes(step: Callable[[], object], steps: int) -> int:
    """How much the process grew over `steps` steps, after 500 to warm up."""
    sizes = []
    for count in (500, steps):
        for _ in range(count):
            step()
        gc.collect()
        sizes.append(psutil.Process().memory_info().rss)
    return sizes[1] - sizes[0]


@pytest.mark.parametrize("steps", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_steps_do_not_take_memory(steps: int) -> None:
    options = BlockOptions(dropout=0.1)
    x, weights = inputs(options, batch=64, tokens=8, dim=64)
    seed = tf.constant([1, 2], tf.int64)

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([x, *weights])
            y = rankmixer_block(x, weights, options, seed=seed)
        return tape.gradient(y, [x, *weights])

    # One step's gradients are 1 MB: a leak of any of them would show.
    assert grown_bytes(step, steps) < steps * 10_000
