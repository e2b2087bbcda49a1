"""Sparse experts: the gated sum, the two routers, and the share of active experts that is held."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from models.build import build_model
from models.config import RankMixerConfig
from models.experts import ExpertsBlock
from models.inputs import InputSpec
from models.sparsity import LEAST, SparsityControl
from ops.rankmixer_block import BlockOptions
from tests.models import reference
from tests.models.blocks import named
from tests.models.examples import INPUTS, values_for


def experts_block(options: BlockOptions, dtype: str = "float64", *, fused: bool = False) -> ExpertsBlock:
    block = ExpertsBlock(
        3, 6, experts=4, hidden=5, dense_router=True, options=options, fused=fused, seed=0, name="block", dtype=dtype
    )
    rng = np.random.default_rng(0)
    block.set_weights([rng.normal(size=weight.shape) for weight in block.weights])
    return block


def config(**experts) -> RankMixerConfig:
    return RankMixerConfig(name="rankmixer", tokens=4, dim=16, layers=2, expansion=2, experts={"count": 4, **experts})


@pytest.mark.parametrize("norm", ["post_ln", "pre_rms"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swiglu"])
def test_a_token_is_the_sum_of_its_experts_by_the_gates_of_the_path(norm, activation):
    block = experts_block(BlockOptions(norm=norm, activation=activation))
    weights = named(block)
    values = np.random.default_rng(1).normal(size=(5, 3, 6))
    by_router = {
        router: reference.block(values, weights, norm, 1e-6, reference.expert_networks(weights, activation, router))
        for router in ("router", "dense_router")
    }
    alone, gates = block(tf.constant(values))
    np.testing.assert_allclose(alone, by_router["router"], rtol=1e-9, atol=1e-9)
    both, of_first_half = block(tf.constant(np.concatenate([values, values])), training=True, both_paths=True)
    np.testing.assert_allclose(both[:5], by_router["router"], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(both[5:], by_router["dense_router"], rtol=1e-9, atol=1e-9)
    assert gates.shape == (3, 5, 4)
    assert 0.2 < (gates.numpy() > 0).mean() < 0.8  # or the sum would be that of all or of none
    np.testing.assert_allclose(gates, of_first_half, rtol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("norm", ["post_ln", "pre_rms"])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "swiglu"])
def test_the_fused_op_has_the_tokens_gates_and_gradients_of_the_composed_sum(norm, activation, precision):
    options = BlockOptions(norm=norm, activation=activation)
    values = tf.cast(np.random.default_rng(1).normal(size=(10, 3, 6)), precision)
    upstream = tf.cast(np.random.default_rng(2).normal(size=(10, 3, 6)), precision)

    def results(fused: bool) -> list[np.ndarray]:
        block = experts_block(options, "float32", fused=fused)
        with tf.GradientTape() as tape:
            tape.watch(values)
            tokens, gates = block(values, training=True, both_paths=True)
            loss = tf.reduce_sum(tf.cast(tokens * upstream, tf.float32)) + 0.1 * tf.reduce_sum(gates)
        assert 0.2 < (gates.numpy() > 0).mean() < 0.8
        found = [tokens, gates, *tape.gradient(loss, [values, *block.trainable_weights])]
        return [tf.cast(one, tf.float32).numpy() for one in found]

    tolerance = 1e-4 if precision == "float32" else 0.05
    for one, other in zip(results(True), results(False), strict=True):
        assert one.any()
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())


def test_the_gates_told_are_the_routers():
    block = experts_block(BlockOptions())
    values = np.random.default_rng(1).normal(size=(5, 3, 6))
    weights, summed = named(block), reference.mix(values) + values
    _, found = block(tf.constant(values))
    for t in range(3):
        for row in range(5):
            s = reference.layer_norm(summed[row, t], weights["gamma1"], weights["beta1"], 1e-6)
            np.testing.assert_allclose(found[t, row], reference.gates(weights, "router", t, s), rtol=1e-9, atol=1e-12)


def test_experts_start_as_the_network_they_stand_for():
    """With gates of 1 the sum is one network whose hidden units are all experts'."""
    block = ExpertsBlock(
        3, 6, experts=4, hidden=5, dense_router=False, options=BlockOptions(), seed=0, name="block", dtype="float64"
    )
    block.router.kernel.assign(tf.zeros_like(block.router.kernel))
    weights = named(block)
    plain = {
        **weights,
        "w1": np.concatenate(list(weights["w1"].transpose(1, 0, 2, 3)), axis=2),
        "b1": weights["b1"].reshape(3, 20),
        "w2": weights["w2"].reshape(3, 20, 6),
        "b2": weights["b2"].sum(axis=1),
    }
    values = np.random.default_rng(1).normal(size=(5, 3, 6))
    wanted = reference.block(values, plain, "post_ln", 1e-6, reference.token_network(plain, "gelu"))
    np.testing.assert_allclose(block(tf.constant(values))[0], wanted, rtol=1e-9, atol=1e-9)


def test_the_loss_reaches_both_routers_and_the_penalty_only_the_sparse_one():
    model = build_model(config(), INPUTS, seed=0)
    with tf.GradientTape(persistent=True) as tape:
        called = model.training_call(values_for(32, 3))
        sparse, dense = tf.unstack(tf.reduce_sum(tf.square(called.logits), axis=0))
        penalty = called.penalty
    blocks = model.body.blocks
    for logits, reached, not_reached in ((sparse, "router", "dense_router"), (dense, "dense_router", "router")):
        for block in blocks:
            assert np.any(tape.gradient(logits, getattr(block, reached).kernel))
            assert tape.gradient(logits, getattr(block, not_reached).kernel) is None or not np.any(
                tape.gradient(logits, getattr(block, not_reached).kernel)
            )
            assert np.any(tape.gradient(logits, block.w1))
    for block in blocks:
        assert np.any(tape.gradient(penalty, block.router.kernel))
        of_dense = tape.gradient(penalty, block.dense_router.kernel)
        assert of_dense is None or not np.any(of_dense)


def test_inference_is_the_first_path_and_knows_nothing_of_the_dense_router():
    model = build_model(config(), INPUTS, seed=0)
    values = values_for(7, 3)
    called = model.training_call(values)
    assert called.logits.shape == (7, 2)
    np.testing.assert_allclose(model(values), called.logits[:, :1], rtol=1e-5, atol=1e-6)
    before = model(values).numpy()
    for block in model.body.blocks:
        block.dense_router.bias.assign_add(tf.ones_like(block.dense_router.bias))
    np.testing.assert_array_equal(model(values), before)
    assert not np.allclose(model.training_call(values).logits[:, 1], called.logits[:, 1])


def test_with_one_router_training_and_inference_are_the_same():
    model = build_model(config(dense_training=False), INPUTS, seed=0)
    values = values_for(7, 3)
    called = model.training_call(values)
    assert called.logits.shape == (7, 1)
    np.testing.assert_allclose(model(values), called.logits, rtol=1e-5, atol=1e-6)
    assert not any("dense_router" in weight.name for weight in model.weights)


def test_penalty_and_activity_are_those_of_the_gates():
    model = build_model(config(penalty_start=0.25), INPUTS, seed=0)
    for block in model.body.blocks:
        block.router.bias.assign(tf.zeros_like(block.router.bias))
    values = values_for(9, 3)
    called = model.training_call(values)
    tokens, gates = model.body.tokenizer(model.features(values)), []
    for block in model.body.blocks:
        tokens, of_block = block(tokens)
        gates.append(of_block.numpy())
    every = np.array(gates)  # [layers, tokens, rows, experts]
    assert every.shape == (2, 4, 9, 4)
    np.testing.assert_allclose(called.penalty, 0.25 * every.mean(axis=(0, 1, 3)).sum(), rtol=1e-5)
    np.testing.assert_array_equal(called.active, (every > 0).sum(axis=2))
    assert 0 < (every > 0).mean() < 1


def test_the_penalty_follows_where_the_share_is_going():
    control = SparsityControl(0.5, 0.01, 1.1, name="control")
    strength, recent = 0.01, 1.0
    for share in (0.9, 0.6, 0.6, 0.51, 0.45, 0.45, 0.45, 0.52, 0.6, 0.2):
        control.steer(tf.fill([2, 3, 4], share * 20.0), tf.constant(20.0))
        strength *= 1.1 if share + 2 * (share - recent) > 0.5 else 1 / 1.1
        recent += 0.1 * (share - recent)
        assert float(control.strength) == pytest.approx(strength, rel=1e-5)
    assert strength < 0.01 * 1.1**10  # it went both ways
    control.steer(tf.zeros([2, 3, 4]), tf.constant(0.0))  # no worker had a row
    assert float(control.strength) == pytest.approx(strength, rel=1e-5)
    for _ in range(200):
        control.steer(tf.zeros([2, 3, 4]), tf.constant(20.0))
    assert float(control.strength) == pytest.approx(LEAST)
    assert not control.trainable_weights and len(control.weights) == 2


def test_training_holds_the_share_of_active_experts():
    inputs = [InputSpec(f"f{index}", "vector", 8) for index in range(2)]
    model = build_model(config(target_active=0.5), inputs, seed=0)
    optimizer = tf_keras.optimizers.Adam(0.01, jit_compile=False)
    optimizer.build(model.trainable_variables)
    rng = np.random.default_rng(0)

    @tf.function
    def step(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.cast(values[:, 0] * values[:, 9] + values[:, 3] > 0, tf.float32)[:, tf.newaxis]
        with tf.GradientTape() as tape:
            called = model.training_call({"f0": values[:, :8], "f1": values[:, 8:]})
            losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.repeat(labels, 2, axis=1), called.logits)
            loss = tf.reduce_mean(losses) + called.penalty / 128
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        model.sparsity.steer(called.active, tf.constant(128.0))
        return tf.reduce_mean(called.active) / 128, tf.reduce_mean(losses[:, 0])

    found = [step(tf.constant(rng.normal(size=(128, 16)), tf.float32)) for _ in range(500)]
    shares, losses = np.array(found).T
    assert shares[:10].mean() > 0.9
    assert shares[-150:].mean() == pytest.approx(0.5, abs=0.08)
    assert losses[-50:].mean() < 0.45
