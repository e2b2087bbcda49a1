"""Dropout masks are reproducible, and differ where they should."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from models.build import build_model
from models.config import DeepFMConfig
from models.dropout import Dropout
from tests.models.examples import INPUTS, values_for

ONES = tf.ones([64, 32])


def dropout(rate=0.25, seed=0, stream=0, name="dropout"):
    return Dropout(rate, seed=seed, stream=stream, name=name)


def test_a_share_of_units_is_dropped_and_the_others_are_scaled():
    result = dropout()(ONES, training=True).numpy()
    assert set(np.unique(result)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((result == 0).mean() - 0.25) < 0.05


def test_without_training_or_rate_values_pass_unchanged():
    np.testing.assert_array_equal(dropout()(ONES, training=False), ONES)
    np.testing.assert_array_equal(dropout()(ONES), ONES)
    layer = dropout(rate=0.0)
    np.testing.assert_array_equal(layer(ONES, training=True), ONES)
    assert layer.weights == []


def test_masks_differ_between_calls_streams_seeds_and_layers():
    layer = dropout()
    masks = [layer(ONES, training=True), layer(ONES, training=True)]
    masks += [dropout(stream=1)(ONES, training=True), dropout(seed=1)(ONES, training=True)]
    masks += [dropout(name="other")(ONES, training=True)]
    assert len({mask.numpy().tobytes() for mask in masks}) == len(masks)


def test_a_restored_layer_goes_on_with_the_masks_it_would_have_had():
    layer = dropout()
    step = tf.function(lambda: layer(ONES, training=True))
    step()
    saved = layer.get_weights()
    expected = [step().numpy(), step().numpy()]
    tf.random.set_seed(5)
    restored = dropout()
    restored.set_weights(saved)
    for mask in expected:
        np.testing.assert_array_equal(restored(ONES, training=True), mask)


def test_workers_of_one_job_have_equal_weights_and_different_masks():
    config = DeepFMConfig(name="deepfm", dropout=0.5)
    models = [build_model(config, INPUTS, seed=0, dropout_stream=worker) for worker in (0, 1)]
    for one, other in zip(models[0].weights, models[1].weights):
        np.testing.assert_array_equal(one, other)
    values = values_for(16, 3)
    np.testing.assert_array_equal(models[0](values), models[1](values))
    assert not np.array_equal(models[0](values, training=True), models[1](values, training=True))
