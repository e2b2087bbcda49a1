"""Initial values depend on seed, name and shape, and on nothing else."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from models import initial
from models.build import build_model
from tests.models.examples import CONFIGS, INPUTS


@pytest.mark.parametrize("config", CONFIGS)
def test_equal_seeds_give_equal_weights_whatever_ran_before(config):
    first = build_model(config, INPUTS, seed=3)
    tf.random.set_seed(99)
    tf.random.normal([5])
    np.random.seed(7)
    second = build_model(config, INPUTS, seed=3)
    assert [weight.name for weight in first.weights] == [weight.name for weight in second.weights]
    for one, other in zip(first.weights, second.weights):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("config", CONFIGS)
def test_another_seed_changes_every_random_weight(config):
    first, second = build_model(config, INPUTS, seed=3), build_model(config, INPUTS, seed=4)
    for one, other in zip(first.trainable_weights, second.trainable_weights):
        values = one.numpy()
        constant = (values == values.flat[0]).all() or one.name.endswith("metric:0")
        assert (values == other.numpy()).all() == constant, one.name


@pytest.mark.parametrize("config", CONFIGS)
def test_names_are_unique_and_weights_of_one_shape_differ(config):
    weights = build_model(config, INPUTS, seed=0).trainable_weights
    assert len({weight.name for weight in weights}) == len(weights)
    random = [weight.numpy() for weight in weights if "kernel" in weight.name or "/w" in weight.name]
    assert len({values.tobytes() for values in random}) == len(random)


def test_another_process_draws_the_same_values():
    code = (
        "from models.initial import generator, glorot; import numpy as np;"
        "print(glorot(3, 5)(generator(11, 'a/b'), (3, 5)).astype(np.float32).tobytes().hex())"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    expected = initial.glorot(3, 5)(initial.generator(11, "a/b"), (3, 5)).astype(np.float32)
    assert output.strip() == expected.tobytes().hex()


def test_glorot_fills_its_interval_evenly():
    values = initial.glorot(30, 70)(initial.generator(0, "w"), (30, 70))
    limit = np.sqrt(6 / 100)
    assert np.abs(values).max() <= limit and np.abs(values).max() > 0.99 * limit
    assert abs(values.mean()) < 0.05 * limit
    assert values.var() == pytest.approx(2 / 100, rel=0.05)


def test_weights_have_the_layers_type():
    layer = tf_keras.layers.Layer(name="layer", dtype="float64")
    weight = initial.add_weight(layer, "w", (2, 3), initial.glorot(2, 3), seed=0)
    assert weight.dtype == tf.float64 and weight.name == "layer/w:0"
