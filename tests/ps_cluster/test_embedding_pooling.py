"""Lists of vectors become one vector each, or a padded sequence with its mask."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.embedding.pooling import pool

LENGTHS = st.lists(st.integers(0, 5), max_size=8)


def reference(vectors: np.ndarray, lengths: list[int], pooling: str) -> np.ndarray:
    """List after list in float64."""
    lists = np.split(vectors.astype(np.float64), np.cumsum(lengths)[:-1]) if lengths else []
    pooled = np.zeros([len(lengths), vectors.shape[1]])
    for row, one in enumerate(lists):
        if len(one):
            pooled[row] = one.sum(axis=0) / {"sum": 1, "mean": len(one), "sqrtn": len(one) ** 0.5}[pooling]
    return pooled


def example(lengths: list[int], dim: int) -> tuple[np.ndarray, tf.Tensor]:
    vectors = np.random.default_rng(sum(lengths)).normal(size=[sum(lengths), dim]).astype(np.float32)
    return vectors, tf.constant(np.concatenate([[0], np.cumsum(lengths)]), tf.int64)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 3), st.sampled_from(["mean", "sum", "sqrtn"]))
def test_pooled_vectors_equal_the_reference(lengths: list[int], dim: int, pooling: str) -> None:
    vectors, splits = example(lengths, dim)
    got = pool(tf.constant(vectors), splits, pooling)
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, reference(vectors, lengths, pooling), rtol=1e-5, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(1, 3))
def test_an_unpooled_list_is_padded_and_masked(lengths: list[int], dim: int) -> None:
    vectors, splits = example(lengths, dim)
    elements, mask = pool(tf.constant(vectors), splits, "none")
    longest = max(lengths, default=0)
    assert elements.shape == (len(lengths), longest, dim)
    assert mask.shape == (len(lengths), longest)
    at = 0
    for row, length in enumerate(lengths):
        assert mask[row].numpy().tolist() == [True] * length + [False] * (longest - length)
        np.testing.assert_array_equal(elements[row, :length], vectors[at : at + length])
        assert not elements[row, length:].numpy().any()
        at += length


@pytest.mark.parametrize("pooling", ["mean", "sum", "sqrtn", "none"])
def test_gradients_equal_differences(pooling: str) -> None:
    lengths = [2, 0, 3, 1]
    vectors, splits = example(lengths, 2)
    weights = np.random.default_rng(1).normal(size=[4, 3, 2] if pooling == "none" else [4, 2])

    def loss(values: tf.Tensor) -> tf.Tensor:
        pooled = pool(values, splits, pooling)
        return tf.reduce_sum(tf.constant(weights, tf.float32) * (pooled[0] if pooling == "none" else pooled))

    watched = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        value = loss(watched)
    gradient = tf.convert_to_tensor(tape.gradient(value, watched)).numpy()
    for place in np.ndindex(vectors.shape):
        # The loss is linear: any step width will do.
        up, down = vectors.copy(), vectors.copy()
        up[place] += 1
        down[place] -= 1
        difference = (float(loss(tf.constant(up))) - float(loss(tf.constant(down)))) / 2
        assert difference == pytest.approx(gradient[place], abs=2e-6)
