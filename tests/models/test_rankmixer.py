"""The composed RankMixer block against the papers' formulas in NumPy."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from models import block_ops, rankmixer_block
from models.build import build_model
from models.config import RankMixerConfig
from ops.rankmixer_block import BlockOptions
from tests.models import reference
from tests.models.blocks import EPSILON, block_with, named, random_weights, weight_shapes
from tests.models.examples import INPUTS, values_for

OPTIONS = [
    BlockOptions(norm=norm, activation=activation, epsilon=EPSILON)
    for norm, activation in itertools.product(["post_ln", "pre_rms"], ["gelu", "gelu_tanh", "swiglu"])
]
shapes = st.tuples(st.integers(0, 4), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 5), st.integers(1, 4))


def expected(values: np.ndarray, weights: dict[str, np.ndarray], options: BlockOptions) -> np.ndarray:
    network = reference.token_network(weights, options.activation)
    return reference.block(values, weights, options.norm, options.epsilon, network)


@settings(max_examples=40, deadline=None)
@given(shapes, st.sampled_from(OPTIONS), st.integers(0, 2**32 - 1))
def test_block_is_the_papers_formula(shape, options, seed):
    batch, tokens, width, expansion = shape
    dim = tokens * width
    rng = np.random.default_rng(seed)
    weights = random_weights(tokens, dim, expansion * dim, options, rng)
    values = rng.normal(size=(batch, tokens, dim))
    exact = block_with(weights, "float64", options)(tf.constant(values))
    assert exact.dtype == tf.float64
    np.testing.assert_allclose(exact, expected(values, weights, options), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(7, 1, 3, 4), (7, 4, 12, 1), (3, 16, 48, 4)])
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[-1]])
def test_block_in_float32_is_near_the_reference(shape, options):
    batch, tokens, dim, expansion = shape
    rng = np.random.default_rng(1)
    weights = random_weights(tokens, dim, expansion * dim, options, rng)
    values = rng.normal(size=(batch, tokens, dim))
    wanted = expected(values, weights, options)
    found = block_with(weights, "float32", options)(tf.constant(values, tf.float32))
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("options", OPTIONS)
def test_block_in_bfloat16_rounds_and_no_more(options):
    rng = np.random.default_rng(1)
    weights = {name: value / 4 for name, value in random_weights(4, 16, 32, options, rng).items()}
    values = rng.normal(size=(9, 4, 16))
    layer = block_with(weights, "float32", options)
    found = layer(tf.constant(values, tf.bfloat16))
    assert found.dtype == tf.bfloat16
    assert {weight.dtype for weight in layer.weights} == {tf.float32}
    wanted = expected(values, weights, options)
    # bfloat16 has 8 bits: each of the few roundings on the way is of 2^-9.
    np.testing.assert_allclose(tf.cast(found, tf.float32), wanted, rtol=0, atol=2**-5 * np.abs(wanted).max())


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", [(1, 1, 3, 1), (2, 2, 4, 1), (1, 3, 3, 2)])
def test_gradients_are_the_references_numeric_ones(shape, options):
    batch, tokens, dim, expansion = shape
    rng = np.random.default_rng(2)
    # A norm of a few nearly equal values is too curved for differences: a larger epsilon rounds it.
    options = BlockOptions(norm=options.norm, activation=options.activation, epsilon=1e-2)
    weights = random_weights(tokens, dim, expansion * dim, options, rng)
    values = rng.normal(size=(batch, tokens, dim))
    upstream = rng.normal(size=values.shape)
    block = block_with(weights, "float64", options)
    point = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(point)
        loss = tf.reduce_sum(block(point) * upstream)
    found = tape.gradient(loss, [point, *block.trainable_weights])

    point_by_name = {"values": values, **weights}

    def loss_at(name: str, moved: np.ndarray) -> float:
        changed = {**point_by_name, name: moved}
        return float((expected(changed["values"], changed, options) * upstream).sum())

    for name, gradient in zip(point_by_name, found, strict=True):
        wanted = reference.numeric_gradient(partial(loss_at, name), point_by_name[name], 1e-3)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6, err_msg=name)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3), st.integers(1, 6), st.integers(1, 4))
def test_mixing_twice_gives_the_tokens_back(batch, tokens, width):
    values = np.random.default_rng(3).normal(size=(batch, tokens, tokens * width))
    mixed = block_ops.mix(tf.constant(values))
    np.testing.assert_array_equal(mixed, reference.mix(values))
    np.testing.assert_array_equal(block_ops.mix(mixed), values)


def test_the_gradient_of_mixing_is_mixing():
    rng = np.random.default_rng(4)
    values, upstream = tf.constant(rng.normal(size=(2, 3, 6))), tf.constant(rng.normal(size=(2, 3, 6)))
    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = tf.reduce_sum(block_ops.mix(values) * upstream)
    np.testing.assert_array_equal(tape.gradient(loss, values), block_ops.mix(upstream))


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[-1]])
def test_a_row_does_not_depend_on_the_rest_of_its_batch(options):
    rng = np.random.default_rng(5)
    block = block_with(random_weights(4, 8, 16, options, rng), "float64", options)
    values = tf.constant(rng.normal(size=(5, 4, 8)))
    together = block(values)
    for row in range(5):
        np.testing.assert_allclose(block(values[row : row + 1])[0], together[row], rtol=1e-12, atol=1e-12)


def test_tokens_that_do_not_divide_dim_are_refused_by_name():
    with pytest.raises(ValueError, match="block: expected a number of tokens that divides dim 10, found 4"):
        rankmixer_block.RankMixerBlock(4, 10, seed=0, name="block")


@pytest.mark.parametrize("options", OPTIONS)
def test_weights_of_a_block_have_the_stated_order_and_shapes(options):
    block = rankmixer_block.RankMixerBlock(2, 6, expansion=3, options=options, seed=0, name="b")
    wanted = [(f"b/{name}:0", shape) for name, shape in weight_shapes(2, 6, 18, options).items()]
    assert [(weight.name, tuple(weight.shape)) for weight in block.weights] == wanted


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_pre_rms_ranker_norms_the_last_tokens_before_their_mean(precision):
    config = RankMixerConfig(
        name="rankmixer",
        tokens=4,
        dim=16,
        layers=2,
        expansion=2,
        norm="pre_rms",
        activation="swiglu",
        precision=precision,
    )
    model = build_model(config, INPUTS, seed=0)
    values = values_for(6, 3)
    tokens = model.body.tokenizer(model.features(values)).numpy().astype(float)
    for block in model.body.blocks:
        network = reference.token_network(named(block), "swiglu")
        tokens = reference.block(tokens, named(block), "pre_rms", config.epsilon, network)
    gamma = model.body.final_gamma.numpy().astype(float)
    normed = np.array([[reference.rms_norm(token, gamma, config.epsilon) for token in row] for row in tokens])
    wanted = model.body.head(tf.constant(normed.mean(axis=1), tf.float32))
    np.testing.assert_allclose(model(values), wanted, rtol=0, atol=1e-4 if precision == "float32" else 0.05)


def test_nan_reaches_the_token_it_is_mixed_into_and_no_other_row():
    values = np.ones((3, 2, 4), np.float32)
    values[1, 1, 0] = np.nan
    result = rankmixer_block.RankMixerBlock(2, 4, seed=0, name="b")(tf.constant(values)).numpy()
    # Head 0 of token 1 is a part of new token 0, and the residual keeps it in token 1.
    assert np.isnan(result[1]).all() and np.isfinite(result[[0, 2]]).all()
