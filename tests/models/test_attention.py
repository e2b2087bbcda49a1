"""Target attention against sums over each row's real elements."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from models.attention import TargetAttention, masked_softmax
from tests.models import reference

KINDS = pytest.mark.parametrize("kind", ["dot", "din"])
QUERIES = pytest.mark.parametrize("learned_query", [False, True])


def attention(kind, dim, learned_query, seed=0):
    layer = TargetAttention(dim, kind, hidden=6, learned_query=learned_query, seed=seed, name="attention")
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def expected_of(layer, kind, elements, mask, query):
    elements, query = elements.astype(float), query.astype(float)
    weights = {weight.name.split("/")[-1].split(":")[0]: weight.numpy().astype(float) for weight in layer.weights}
    if kind == "din":
        return reference.attention_din(elements, mask, query, weights)
    return reference.attention_dot(elements, mask, query, weights.get("metric", np.eye(elements.shape[2])))


@KINDS
@QUERIES
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 4), st.integers(0, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_attention_is_the_weighted_sum_of_real_elements(kind, learned_query, batch, length, dim, seed):
    rng = np.random.default_rng(seed)
    elements = rng.normal(size=(batch, length, dim)).astype(np.float32)
    mask = rng.random((batch, length)) < 0.6
    layer = attention(kind, dim, learned_query, seed)
    if learned_query:
        query = np.tile(layer.query.numpy(), (batch, 1))
        found = layer(tf.constant(elements), tf.constant(mask))
    else:
        query = rng.normal(size=(batch, dim)).astype(np.float32)
        found = layer(tf.constant(elements), tf.constant(mask), tf.constant(query))
    assert found.shape == (batch, dim)
    np.testing.assert_allclose(found, expected_of(layer, kind, elements, mask, query), rtol=1e-3, atol=1e-4)


@KINDS
@pytest.mark.parametrize("length", [0, 3])
def test_rows_without_elements_give_zeros_and_zero_gradients(kind, length):
    layer = attention(kind, 4, learned_query=False)
    elements, query = tf.ones([2, length, 4]), tf.ones([2, 4])
    with tf.GradientTape() as tape:
        tape.watch([elements, query])
        result = layer(elements, tf.zeros([2, length], tf.bool), query)
        loss = tf.reduce_sum(result * 3.0)
    np.testing.assert_array_equal(result, np.zeros((2, 4)))
    for gradient in tape.gradient(loss, [elements, query, *layer.trainable_weights]):
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


@KINDS
def test_what_padding_holds_has_no_influence(kind):
    layer = attention(kind, 3, learned_query=False)
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(4, 5, 3)).astype(np.float32)
    mask = np.arange(5)[None] < np.array([0, 1, 3, 5])[:, None]
    clean[~mask] = 0
    dirty = np.where(mask[:, :, None], clean, np.resize([np.nan, np.inf, -1e30], clean.shape)).astype(np.float32)
    query = tf.constant(rng.normal(size=(4, 3)), tf.float32)
    results, gradients = [], []
    for values in (clean, dirty):
        elements = tf.constant(values)
        with tf.GradientTape() as tape:
            tape.watch([elements, query])
            result = layer(elements, tf.constant(mask), query)
            loss = tf.reduce_sum(result**2)
        results.append(result)
        gradients.append(tape.gradient(loss, [elements, query, *layer.trainable_weights]))
    np.testing.assert_array_equal(results[0], results[1])
    for first, second in zip(*gradients):
        np.testing.assert_array_equal(first, second)
        assert np.isfinite(first).all()


def test_softmax_survives_scores_of_any_size():
    scores = tf.constant([[1e30, -1e30, 0.0], [-1e30, -3e38, -2e30], [3e38, 3e38, 1.0]])
    mask = tf.constant([[True, True, False], [False, True, True], [True, True, True]])
    np.testing.assert_allclose(masked_softmax(scores, mask).numpy().sum(axis=1), [1, 1, 1], rtol=1e-6)


def test_a_single_element_weighs_one_and_its_score_has_no_gradient():
    scores = tf.constant([[7.0, 9.0]])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        shares = masked_softmax(scores, tf.constant([[True, False]]))
    np.testing.assert_array_equal(shares, [[1.0, 0.0]])
    np.testing.assert_array_equal(tape.gradient(shares, scores), [[0.0, 0.0]])
