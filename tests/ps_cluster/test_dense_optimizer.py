"""The dense weights' optimiser is the one the job names, with the job's settings."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_cluster.job.schema import DenseOptimizer
from ps_cluster.train.dense import make_dense_optimizer

RATE, DECAY = 0.1, 0.05


def update(name: str, weight: np.ndarray, gradient: np.ndarray, state: dict, step: int, rate: float) -> np.ndarray:
    """The papers' formulas in float64; tf-keras' defaults for what a job does not name."""
    if name == "sgd":
        return weight - rate * gradient
    if name == "adagrad":
        state["sum"] = state.get("sum", 0.1) + gradient**2
        return weight - rate * gradient / np.sqrt(state["sum"] + 1e-7)
    state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * gradient
    state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * gradient**2
    corrected = rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    decayed = weight * (1 - rate * DECAY) if name == "adamw" else weight
    return decayed - corrected * state["m"] / (np.sqrt(state["v"]) + 1e-7)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
def test_steps_follow_the_formula_and_the_rate_that_the_step_sets(name: str) -> None:
    decay = {"weight_decay": DECAY} if name == "adamw" else {}
    optimizer = make_dense_optimizer(DenseOptimizer(name=name, learning_rate=RATE, **decay))
    random = np.random.default_rng(0)
    weight = random.normal(size=7)
    variable = tf.Variable(weight.astype(np.float32))
    state: dict = {}
    for step in range(1, 11):
        gradient = random.normal(size=7)
        rate = RATE / step
        optimizer.learning_rate.assign(rate)
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
        weight = update(name, weight, gradient, state, step, rate)
    np.testing.assert_allclose(variable.numpy(), weight, atol=2e-5)


def test_the_first_rate_is_the_jobs() -> None:
    optimizer = make_dense_optimizer(DenseOptimizer(name="adam", learning_rate=0.25))
    assert float(optimizer.learning_rate) == 0.25
