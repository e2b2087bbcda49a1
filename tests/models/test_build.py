"""What every model does, whichever it is."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from models.build import Ranker, build_model
from models.config import DCNConfig
from models.features import signed_log
from models.inputs import InputSpec
from tests.models.examples import CONFIGS, INPUTS, values_for

MODELS = pytest.mark.parametrize("config", CONFIGS)


def signature():
    """Shapes as a trainer gives them: batch and length unknown."""
    return {
        name: tuple(tf.TensorSpec([None, None, *part.shape[2:]], part.dtype) for part in value)
        if isinstance(value, tuple)
        else tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        for name, value in values_for(1, 1).items()
    }


@MODELS
def test_gradients_reach_every_weight_and_input_for_any_batch_and_length(config):
    model = build_model(config, INPUTS, seed=0)
    assert model.built

    @tf.function(input_signature=[signature()])
    def step(values):
        sources = [*model.trainable_weights, *tf.nest.flatten({**values, "history": values["history"][0]})]
        sources = [source for source in sources if source.dtype == tf.float32]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            called = model.training_call(values)
            logits = called.logits[:, :1]
            loss = tf.reduce_sum(tf.square(called.logits)) + (0.0 if called.penalty is None else called.penalty)
        return logits, tape.gradient(loss, sources)

    for batch in (0, 1, 5):
        for length in (0, 3):
            logits, gradients = step(values_for(batch, length))
            assert logits.shape == (batch, 1) and logits.dtype == tf.float32
            for gradient in gradients:
                assert gradient is not None
                assert np.isfinite(tf.convert_to_tensor(gradient)).all()
    assert any(np.any(tf.convert_to_tensor(gradient)) for gradient in gradients)


@MODELS
def test_a_graph_gives_the_eager_logits_and_the_same_bits_twice(config):
    model = build_model(config, INPUTS, seed=0)
    values = values_for(32, 5)
    graph = tf.function(lambda values: model(values, training=False))
    np.testing.assert_array_equal(graph(values), graph(values))
    np.testing.assert_allclose(graph(values), model(values), rtol=1e-5, atol=1e-6)


@MODELS
def test_rows_are_scored_on_their_own(config):
    model = build_model(config, INPUTS, seed=0)
    values = values_for(6, 4)
    together = model(values)
    for row in range(6):
        alone = model(tf.nest.map_structure(lambda value, row=row: value[row : row + 1], values))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-4, atol=1e-5)


@MODELS
def test_padding_a_sequence_changes_no_logit(config):
    model = build_model(config, INPUTS, seed=0)
    values = values_for(6, 4)
    padded = dict(values)
    for name in ("history", "genres"):
        elements, mask = values[name]
        padded[name] = (
            tf.pad(elements, [[0, 0], [0, 3], [0, 0]], constant_values=np.nan),
            tf.pad(mask, [[0, 0], [0, 3]]),
        )
    np.testing.assert_allclose(model(padded), model(values), rtol=1e-5, atol=1e-6)


@MODELS
def test_weights_restored_by_order_give_the_same_logits(config):
    trained = build_model(config, INPUTS, seed=0)
    trained(values_for(4, 2), training=True)
    for weight in trained.trainable_weights:
        weight.assign_add(tf.ones_like(weight) * 0.1)
    saved = [weight.numpy() for weight in trained.weights]
    for seed in (0, 1):
        restored = build_model(config, INPUTS, seed=seed)
        assert [weight.name for weight in restored.weights] == [weight.name for weight in trained.weights]
        for weight, values in zip(restored.weights, saved):
            weight.assign(values)
        values = values_for(4, 3)
        np.testing.assert_array_equal(restored(values), trained(values))
        if seed == 0:
            again = restored(values, training=True)
            np.testing.assert_array_equal(again, trained(values, training=True))


@MODELS
def test_a_few_steps_of_gradient_descent_fit_a_planted_rule(config):
    model = build_model(config, INPUTS, seed=0)
    values = values_for(256, 3)
    labels = tf.cast(values["age"] + values["user"][:, 0] > 0, tf.float32)[:, tf.newaxis]

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            logits = model(values, training=True)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, model.trainable_weights)
        for weight, gradient in zip(model.trainable_weights, gradients):
            weight.assign_sub(0.1 * gradient)
        return loss

    losses = [float(step()) for _ in range(100)]
    assert losses[-1] < 0.25 < losses[0]


@MODELS
def test_a_model_rebuilt_from_its_description_has_the_same_weights(config):
    model = build_model(config, INPUTS, seed=5)
    for one, other in zip(model.weights, Ranker.from_config(model.get_config()).weights):
        assert one.name == other.name
        np.testing.assert_array_equal(one, other)


class Server(tf.Module):
    """What an export would look like: named tensors in, logits out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    @tf.function(input_signature=[tf.TensorSpec([None, 8]), tf.TensorSpec([None, None, 4])])
    def serve(self, vectors, genres):
        pairs = tf.stack([vectors, 2 * vectors], axis=1)
        values = {
            "user": vectors,
            "item": -vectors,
            "history": (pairs, tf.ones(tf.shape(pairs)[:2], tf.bool)),
            "genres": (genres, genres[:, :, 0] > 0),
            "age": vectors[:, 0],
            "price": vectors[:, 1],
        }
        return {"logit": self.model(values, training=False)}


SCORE = """
import sys, numpy as np, tensorflow as tf
data = np.load("inputs.npz")
serve = tf.saved_model.load("model").signatures["serving_default"]
np.save("logits.npy", serve(**{name: tf.constant(data[name]) for name in data})["logit"].numpy())
assert "models" not in sys.modules
"""


def test_a_saved_model_scores_in_a_process_without_this_code(tmp_path):
    rng = np.random.default_rng(0)
    vectors, genres = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 8), (5, 3, 4)))
    np.savez(tmp_path / "inputs.npz", vectors=vectors, genres=genres)
    server = Server(build_model(CONFIGS[1], INPUTS, seed=0))
    tf.saved_model.save(server, str(tmp_path / "model"), signatures=server.serve)
    done = subprocess.run([sys.executable, "-c", SCORE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = server.serve(vectors, genres)["logit"]
    np.testing.assert_allclose(np.load(tmp_path / "logits.npy"), expected, rtol=1e-6, atol=1e-6)


def test_a_missing_input_is_named():
    model = build_model(CONFIGS[0], INPUTS, seed=0)
    values = values_for(2, 2)
    del values["item"], values["age"]
    with pytest.raises(ValueError, match="expected item, age, found user, history, genres, price"):
        model(values)


def test_dense_numbers_of_any_size_come_within_one_order_of_magnitude():
    raw = np.array([0, 1e-6, 0.5, -0.5, 1, 99, -1e6, 3e38], np.float32)
    expected = np.sign(raw) * np.log1p(np.abs(raw.astype(float)))
    np.testing.assert_allclose(signed_log(tf.constant(raw)), expected, rtol=1e-5)


@pytest.mark.parametrize(("transform", "expected"), [("signed_log", np.log(101)), ("none", 100.0)])
def test_the_transform_of_dense_numbers_is_the_configured_one(transform, expected):
    config = DCNConfig(name="dcn", hidden=[], dense_transform=transform)
    model = build_model(config, [InputSpec("price", "dense", 1)], seed=0)
    (column,) = model.features({"price": tf.constant([100.0, -100.0])})
    np.testing.assert_allclose(column, [[expected], [-expected]], rtol=1e-6)
