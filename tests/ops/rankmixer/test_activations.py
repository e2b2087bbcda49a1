"""The activations and their slopes over all of float32's range."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block
from tests.ops.rankmixer.reference import activate

TOKENS, DIM = 32, 128


def units(arguments: np.ndarray, activation: str) -> tuple[np.ndarray, np.ndarray]:
    """Activation and slope of each of float32 `arguments` `[TOKENS, DIM]`, by the op.

    With x = 0, w1 = 0 and w2 the identity the block's result is the activation of b1, and the gradient of b1 its slope.
    """
    none = tf.zeros([0])
    inner = 2 * DIM if activation == "swiglu" else DIM
    b1 = tf.constant(arguments, tf.float32)
    if activation == "swiglu":
        b1 = tf.concat([b1, tf.ones_like(b1)], axis=1)
    weights = BlockWeights(
        gamma1=tf.ones([DIM]),
        beta1=none,
        w1=tf.zeros([TOKENS, DIM, inner]),
        b1=b1,
        w2=tf.eye(DIM, batch_shape=[TOKENS]),
        b2=tf.zeros([TOKENS, DIM]),
        gamma2=tf.ones([DIM]),
        beta2=none,
    )
    with tf.GradientTape() as tape:
        tape.watch(b1)
        y = rankmixer_block(tf.zeros([1, TOKENS, DIM]), weights._replace(b1=b1), BlockOptions("pre_rms", activation))
    return y.numpy()[0], tape.gradient(y, b1).numpy()[:, :DIM]


def expected(arguments: np.ndarray, activation: str) -> tuple[np.ndarray, np.ndarray]:
    exact = arguments.astype(np.float64)
    if activation == "swiglu":
        exact = np.concatenate([exact, np.ones_like(exact)], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        value, slopes = activate(exact, activation)
    return value, slopes[0]


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swiglu"])
def test_activations_have_the_accuracy_of_float32(activation: str) -> None:
    grids = [np.linspace(-6, 6, TOKENS * DIM), np.linspace(-14, -4, TOKENS * DIM), np.linspace(-90, 90, TOKENS * DIM)]
    sizes = np.geomspace(1e-30, 1e6, TOKENS * DIM // 2)
    grids.append(np.concatenate([-sizes, sizes]))
    for grid in grids:
        arguments = grid.astype(np.float32).reshape(TOKENS, DIM)
        for found, wanted in zip(units(arguments, activation), expected(arguments, activation)):
            # To a few units in the last place; near a zero of a slope, of the terms it is a difference of. Below e^-87
            # there is nothing.
            size = np.maximum(np.abs(wanted), np.where(np.abs(arguments) < 8, 0.1, 1e-30))
            error = np.abs(found - wanted) / size
            # The cubic's own rounding is in the exponent of gelu_tanh.
            bound = 2e-5 if activation == "gelu_tanh" else 2e-6
            assert error.max() < bound, (activation, arguments.ravel()[error.argmax()])


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swiglu"])
def test_not_a_number_stays_that(activation: str) -> None:
    arguments = np.zeros([TOKENS, DIM], np.float32)
    arguments[3, 5] = np.nan
    # The identity's zeros times a NaN are NaN too: it reaches all units of its token, and no other.
    value, slope = units(arguments, activation)
    assert np.isnan(value[3]).all() and np.isnan(slope[3, 5])
    assert np.isfinite(np.delete(value, 3, axis=0)).all() and np.isfinite(np.delete(slope, 3, axis=0)).all()
