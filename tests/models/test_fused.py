"""The fused block or fused experts in the ranker: when they are chosen, and that they equal the composed ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from models.build import build_model
from models.config import DCNConfig, RankMixerConfig
from models.fused import choose, has_kernel
from ops.library import RANKMIXER_PATH, load_rankmixer
from tests.models.examples import INPUTS, values_for

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = [
    {},
    {"gelu": "tanh", "epsilon": 1e-3},
    {"norm": "pre_rms", "activation": "swiglu"},
    {"experts": {"count": 4}},
    {"experts": {"count": 2, "hidden": 5, "dense_training": False}, "norm": "pre_rms", "activation": "swiglu"},
]


def config(**fields) -> RankMixerConfig:
    return RankMixerConfig(name="rankmixer", tokens=4, dim=16, layers=2, expansion=2, **fields)


def with_inactive_experts(model):
    """The same model, with about half of the gates at 0."""
    for weight in model.weights:
        if "router/bias" in weight.name:
            weight.assign(tf.zeros_like(weight))
    return model


def gradients_of(model, values) -> list[np.ndarray]:
    sources = [*model.trainable_weights, values["user"], values["price"]]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        called = model.training_call(values)
        loss = tf.reduce_sum(tf.square(called.logits - 1.0))
        if called.penalty is not None:
            loss += called.penalty
    return [tf.convert_to_tensor(gradient).numpy() for gradient in tape.gradient(loss, sources)]


@pytest.mark.parametrize("fields", OPTIONS)
def test_fused_and_composed_rankers_give_the_same_logits_and_gradients(fields):
    fused, composed = (
        with_inactive_experts(build_model(config(**fields), INPUTS, seed=3, fused=choice)) for choice in (True, False)
    )
    assert [(w.name, w.shape) for w in fused.weights] == [(w.name, w.shape) for w in composed.weights]
    for one, other in zip(fused.weights, composed.weights):
        np.testing.assert_array_equal(one, other)
    for rows in (1, 33):
        values = values_for(rows, 3)
        np.testing.assert_allclose(fused(values), composed(values), rtol=1e-4, atol=1e-5)
        graph = tf.function(lambda values: fused(values))
        np.testing.assert_allclose(graph(values), fused(values), rtol=1e-5, atol=1e-6)
        for one, other in zip(gradients_of(fused, values), gradients_of(composed, values), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * max(np.abs(other).max(), 1e-3))


@pytest.mark.parametrize("experts", [None, {"count": 4, "dense_training": False}])
@pytest.mark.parametrize("trained_fused", [True, False])
def test_what_one_form_has_trained_the_other_evaluates(trained_fused, experts):
    one, other = (
        build_model(config(dropout=0.1, experts=experts), INPUTS, seed=0, fused=form)
        for form in (trained_fused, not trained_fused)
    )
    values = values_for(256, 3)
    labels = tf.cast(values["age"] + values["user"][:, 0] > 0, tf.float32)[:, tf.newaxis]

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, one.training_call(values).logits)
        for weight, gradient in zip(one.trainable_weights, tape.gradient(losses, one.trainable_weights)):
            weight.assign_sub(0.1 / 256 * gradient)
        return tf.reduce_mean(losses)

    losses = [float(step()) for _ in range(100)]
    assert losses[-1] < 0.35 < losses[0]
    before = other(values).numpy()
    other.set_weights(one.get_weights())
    np.testing.assert_allclose(other(values), one(values), rtol=1e-3, atol=1e-3)
    assert np.abs(other(values) - before).max() > 0.5


@pytest.mark.parametrize("experts", [None, {"count": 4}])
def test_fused_dropout_goes_by_the_number_of_the_call_and_the_worker(experts):
    values = values_for(16, 3)

    def calls(stream: int, restored: list | None = None) -> tuple[list[bytes], list]:
        model = build_model(config(dropout=0.5, experts=experts), INPUTS, seed=0, dropout_stream=stream, fused=True)
        if restored:
            model.set_weights(restored)
        first = model.training_call(values).logits.numpy().tobytes()
        saved = model.get_weights()
        return [first, model.training_call(values).logits.numpy().tobytes()], saved

    (first, second), saved = calls(0)
    (again, _), _ = calls(0)
    (elsewhere, _), _ = calls(1)
    (continued, _), _ = calls(0, saved)
    assert first == again and second == continued
    assert len({first, second, elsewhere}) == 3


@pytest.mark.parametrize(
    ("experts", "op"), [(None, "PsClusterRankmixerBlock"), ({"count": 4}, "PsClusterSparseExperts")]
)
def test_the_fused_op_in_evaluation_keeps_nothing_and_drops_nothing(experts, op):
    model = build_model(config(dropout=0.5, experts=experts), INPUTS, seed=0, fused=True)
    signature = tf.nest.map_structure(lambda value: tf.TensorSpec(value.shape, value.dtype), values_for(2, 2))
    for call, keep, dropout in ((model, False, 0.0), (model.training_call, True, 0.5)):
        graph = tf.function(lambda values, call=call: call(values)).get_concrete_function(signature).graph
        found = [one for one in graph.get_operations() if one.type == op]
        assert [(one.get_attr("keep"), one.get_attr("dropout")) for one in found] == [(keep, dropout)] * 2


def test_auto_is_fused_where_there_is_a_kernel_and_off_is_not():
    for what, fields in {"block": {}, "experts": {"experts": {"count": 2}}}.items():
        assert choose(config(**fields)).fused and choose(config(fused="on", **fields)).fused
        words = [f"fused {what} ({name})" for name in ("sse", "avx2", "avx512", "avx512_bf16", "amx")]
        assert choose(config(**fields)).words in words
        off = choose(config(fused="off", **fields))
        assert not off.fused and off.words == f"composed {what}"
    assert not choose(DCNConfig(name="dcn")).fused


def test_experts_without_a_kernel_for_the_device_are_composed_and_on_is_refused():
    fields = {"experts": {"count": 2}}
    assert choose(config(**fields), "TPU").words == "composed experts: no TPU kernel of it for float32"
    message = "fused: expected fused experts for fused: on, found no TPU kernel of it for float32"
    with pytest.raises(ValueError, match=message):
        choose(config(fused="on", **fields), "TPU")


def test_a_dtype_without_a_kernel_is_not_fused():
    load_rankmixer()
    assert has_kernel("PsClusterRankmixerBlock", "CPU", "float32")
    assert not has_kernel("PsClusterRankmixerBlock", "CPU", "float64")
    assert not has_kernel("PsClusterRankmixerBlock", "TPU", "float32")


WITHOUT = """
import ops.library, models.fused
from models.config import RankMixerConfig
print(models.fused.choose(RankMixerConfig(name="rankmixer")))
try:
    models.fused.choose(RankMixerConfig(name="rankmixer", fused="on"))
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("found", ["no such file", "1000 of a library's "])
def test_without_the_library_auto_is_composed_and_on_is_refused(tmp_path, found):
    for package in ("models", "ops"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    path = tmp_path / "ops/_rankmixer.so"
    if found != "no such file":
        path.write_bytes(Path(RANKMIXER_PATH).read_bytes()[:1000])
    done = subprocess.run([sys.executable, "-c", WITHOUT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    auto, on = done.stdout.splitlines()
    missing = f"{path}: expected an op library for TensorFlow {tf.__version__}, found {found}"
    assert auto.startswith("Choice(fused=False, words=") and f"composed block: {missing}" in auto
    assert on.startswith(f"fused: expected a fused block for fused: on, found {missing}")
    assert on.endswith("; build it with `python setup.py build_ext --inplace`")
