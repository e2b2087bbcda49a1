"""The RankMixer block against the paper's formulas in NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from models import rankmixer
from tests.models import reference

EPSILON = 1e-6


def random_weights(tokens: int, dim: int, hidden: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {
        "gamma1": (dim,),
        "beta1": (dim,),
        "w1": (tokens, dim, hidden),
        "b1": (tokens, hidden),
        "w2": (tokens, hidden, dim),
        "b2": (tokens, dim),
        "gamma2": (dim,),
        "beta2": (dim,),
    }
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def block_with(weights: dict[str, np.ndarray], dtype: str, **options) -> rankmixer.RankMixerBlock:
    tokens, dim, hidden = weights["w1"].shape
    block = rankmixer.RankMixerBlock(tokens, dim, expansion=hidden // dim, seed=0, name="block", dtype=dtype, **options)
    block.set_weights([weights[name] for name in reference.BLOCK_WEIGHTS])
    return block


shapes = st.tuples(st.integers(0, 4), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 5), st.integers(1, 4))


@settings(max_examples=40, deadline=None)
@given(shapes, st.sampled_from(["exact", "tanh"]), st.integers(0, 2**32 - 1))
def test_block_is_the_papers_formula(shape, gelu, seed):
    batch, tokens, width, expansion = shape
    dim = tokens * width
    rng = np.random.default_rng(seed)
    weights = random_weights(tokens, dim, expansion * dim, rng)
    values = rng.normal(size=(batch, tokens, dim))
    expected = reference.block(values, weights, gelu, EPSILON)
    exact = block_with(weights, "float64", gelu=gelu, epsilon=EPSILON)(tf.constant(values))
    assert exact.dtype == tf.float64
    np.testing.assert_allclose(exact, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(7, 1, 3, 4), (7, 4, 12, 1), (3, 16, 48, 4)])
def test_block_in_float32_is_near_the_reference(shape):
    batch, tokens, dim, expansion = shape
    rng = np.random.default_rng(1)
    weights = random_weights(tokens, dim, expansion * dim, rng)
    values = rng.normal(size=(batch, tokens, dim))
    found = block_with(weights, "float32", epsilon=EPSILON)(tf.constant(values, tf.float32))
    np.testing.assert_allclose(found, reference.block(values, weights, "exact", EPSILON), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("gelu", ["exact", "tanh"])
@pytest.mark.parametrize("shape", [(1, 1, 3, 1), (2, 2, 4, 1), (1, 3, 3, 2)])
def test_gradients_are_the_references_numeric_ones(shape, gelu):
    batch, tokens, dim, expansion = shape
    rng = np.random.default_rng(2)
    # LayerNorm of a few nearly equal values is too curved for differences: a larger epsilon rounds it.
    epsilon = 1e-2
    weights = random_weights(tokens, dim, expansion * dim, rng)
    values = rng.normal(size=(batch, tokens, dim))
    upstream = rng.normal(size=values.shape)
    block = block_with(weights, "float64", gelu=gelu, epsilon=epsilon)
    point = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(point)
        loss = tf.reduce_sum(block(point) * upstream)
    found = tape.gradient(loss, [point, *block.trainable_weights])

    point_by_name = {"values": values, **weights}

    def loss_at(name: str, moved: np.ndarray) -> float:
        changed = {**point_by_name, name: moved}
        return float((reference.block(changed["values"], changed, gelu, epsilon) * upstream).sum())

    for name, gradient in zip(("values", *reference.BLOCK_WEIGHTS), found):
        expected = reference.numeric_gradient(partial(loss_at, name), point_by_name[name], 1e-3)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6, err_msg=name)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3), st.integers(1, 6), st.integers(1, 4))
def test_mixing_twice_gives_the_tokens_back(batch, tokens, width):
    values = np.random.default_rng(3).normal(size=(batch, tokens, tokens * width))
    mixed = rankmixer.mix(tf.constant(values))
    np.testing.assert_array_equal(mixed, reference.mix(values))
    np.testing.assert_array_equal(rankmixer.mix(mixed), values)


def test_the_gradient_of_mixing_is_mixing():
    rng = np.random.default_rng(4)
    values, upstream = tf.constant(rng.normal(size=(2, 3, 6))), tf.constant(rng.normal(size=(2, 3, 6)))
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = tf.reduce_sum(rankmixer.mix(values) * upstream)
    np.testing.assert_array_equal(tape.gradient(loss, values), rankmixer.mix(upstream))


def test_a_row_does_not_depend_on_the_rest_of_its_batch():
    rng = np.random.default_rng(5)
    block = block_with(random_weights(4, 8, 16, rng), "float64")
    values = tf.constant(rng.normal(size=(5, 4, 8)))
    together = block(values)
    for row in range(5):
        np.testing.assert_allclose(block(values[row : row + 1])[0], together[row], rtol=1e-12, atol=1e-12)


def test_tokens_that_do_not_divide_dim_are_refused_by_name():
    with pytest.raises(ValueError, match="block: expected a number of tokens that divides dim 10, found 4"):
        rankmixer.RankMixerBlock(4, 10, seed=0, name="block")


def test_weights_of_a_block_have_the_stated_order_and_shapes():
    block = rankmixer.RankMixerBlock(2, 6, expansion=3, seed=0, name="b")
    assert [(weight.name, tuple(weight.shape)) for weight in block.weights] == [
        ("b/gamma1:0", (6,)),
        ("b/beta1:0", (6,)),
        ("b/w1:0", (2, 6, 18)),
        ("b/b1:0", (2, 18)),
        ("b/w2:0", (2, 18, 6)),
        ("b/b2:0", (2, 6)),
        ("b/gamma2:0", (6,)),
        ("b/beta2:0", (6,)),
    ]


def test_nan_reaches_the_token_it_is_mixed_into_and_no_other_row():
    values = np.ones((3, 2, 4), np.float32)
    values[1, 1, 0] = np.nan
    result = rankmixer.RankMixerBlock(2, 4, seed=0, name="b")(tf.constant(values)).numpy()
    # Head 0 of token 1 is a part of new token 0, and the residual keeps it in token 1.
    assert np.isnan(result[1]).all() and np.isfinite(result[[0, 2]]).all()
