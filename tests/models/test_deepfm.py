"""DeepFM against sums over all pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from models.deepfm import DeepFM, default_fm_dim, pair_sum
from models.inputs import InputSpec


def brute_force(fields: np.ndarray) -> np.ndarray:
    """`[batch, fields, dim]` to `[batch, 1]`."""
    result = np.zeros((fields.shape[0], 1))
    for row in range(fields.shape[0]):
        for first, second in itertools.combinations(range(fields.shape[1]), 2):
            result[row, 0] += fields[row, first] @ fields[row, second]
    return result


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 4), st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_pair_sum_is_the_sum_over_all_pairs(batch, fields, dim, seed):
    values = np.random.default_rng(seed).normal(size=(batch, fields, dim))
    np.testing.assert_allclose(pair_sum(tf.constant(values)), brute_force(values), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("hidden", [[], [5], [5, 3]])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_logit_is_first_order_and_pairs_and_deep_network(hidden, batch):
    inputs = [InputSpec("u", "vector", 4), InputSpec("v", "sequence", 4), InputSpec("w", "vector", 3)]
    inputs.append(InputSpec("age", "dense", 1))
    model = DeepFM(inputs, hidden=hidden, fm_dim=None, dropout=0.0, seed=0)
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    weights = {weight.name[len("deepfm/") : -2]: weight.numpy().astype(float) for weight in model.weights}
    values = [rng.normal(size=(batch, spec.dim)).astype(np.float32) for spec in inputs]
    u, v, w, age = (value.astype(float) for value in values)
    fields = np.stack([u, v, w @ weights["w/projection"], age @ weights["age/projection"]], axis=1)
    row = np.concatenate([u, v, w, age], axis=1)
    expected = row @ weights["first_order/logit/kernel"] + weights["first_order/logit/bias"]
    expected = expected + brute_force(fields)
    if hidden:
        for layer in range(len(hidden)):
            row = np.maximum(row @ weights[f"deep/layer_{layer}/kernel"] + weights[f"deep/layer_{layer}/bias"], 0)
        expected = expected + row @ weights["deep/logit/kernel"]
    np.testing.assert_allclose(model(values), expected, rtol=1e-4, atol=1e-4)


def test_vectors_of_the_commonest_width_are_taken_as_they_are():
    widths = [4, 8, 8, 4, 2]
    inputs = [InputSpec(f"f{index}", "vector", width) for index, width in enumerate(widths)]
    assert default_fm_dim(inputs) == 8
    assert default_fm_dim([*inputs, InputSpec("s", "sequence", 4)]) == 4
    assert default_fm_dim([InputSpec("age", "dense", 1)]) == 8
    names = [weight.name for weight in DeepFM(inputs, hidden=[], fm_dim=None, dropout=0, seed=0).weights]
    assert [name for name in names if "projection" in name] == [
        "deepfm/f0/projection:0",
        "deepfm/f3/projection:0",
        "deepfm/f4/projection:0",
    ]
