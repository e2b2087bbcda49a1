"""The sparse experts and their gradients against float64, over shapes, options, types and shares of gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.library import load_rankmixer
from ops.rankmixer_experts import sparse_experts
from tests.models.reference import numeric_gradient
from tests.ops.rankmixer.experts_reference import INPUTS, Options, example, experts
from tests.ops.rankmixer.experts_run import assert_near, in_dtype, run
from tests.ops.rankmixer.fused import assert_close, assert_same_bits, rounded

ACTIVATIONS = ["gelu", "gelu_tanh", "swiglu"]
TYPES = [tf.float32, tf.float16, tf.bfloat16]
SEED = (3, -5)


def check(
    shape: tuple[int, int, int, int, int],
    options: Options,
    dtype: tf.DType = tf.float32,
    *,
    active: float = 0.4,
    **how: Any,
) -> None:
    inputs, dy = example(*shape, options, active=active)
    inputs, dy = in_dtype(inputs, dtype), rounded(dy, dtype)
    found = run(inputs, options, dy, dtype=dtype, seed=SEED, **how)
    assert_near(found, experts(inputs, options, dy, SEED), dtype)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_of_the_reference_are_its_numeric_ones(activation: str) -> None:
    options = Options(activation, dropout=0.25)
    inputs, dy = example(3, 2, 4, 3, 5, options, active=0.6)
    skipped = inputs["gates"] == 0
    assert skipped.any() and not skipped.all()
    gradients = experts(inputs, options, dy, (1, 2)).gradients
    for name in INPUTS:

        def loss(value: np.ndarray, name: str = name) -> float:
            return float((experts({**inputs, name: value}, options, dy, (1, 2)).y * dy).sum())

        expected = numeric_gradient(loss, inputs[name], 1e-3)
        if name == "gates":  # those of skipped gates are 0 by definition
            expected = np.where(skipped, 0.0, expected)
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-7, atol=1e-8, err_msg=name)


# [batch, tokens, dim, experts, hidden]; the second and third have more rows than are gathered at a time.
@pytest.mark.parametrize("shape", [(7, 3, 12, 4, 5), (700, 2, 24, 2, 40), (1100, 1, 32, 3, 16), (40, 4, 64, 8, 32)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_sum_and_gradients_are_those_of_the_formula(
    shape: tuple[int, int, int, int, int], activation: str, dtype: tf.DType
) -> None:
    check(shape, Options(activation), dtype)


@pytest.mark.parametrize("active", [0.0, 0.03, 0.25, 1.0])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_any_share_of_gates_may_be_zero(active: float, dtype: tf.DType) -> None:
    check((300, 3, 16, 5, 24), Options(), dtype, active=active)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=st.tuples(st.integers(0, 70), st.integers(1, 5), st.integers(1, 40), st.integers(1, 6), st.integers(1, 40)),
    activation=st.sampled_from(ACTIVATIONS),
    dropout=st.sampled_from([0.0, 0.1, 0.9]),
    active=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    keep=st.booleans(),
    tokens_first=st.booleans(),
)
def test_any_shape(
    shape: tuple[int, int, int, int, int],
    activation: str,
    dropout: float,
    active: float,
    seed: tuple[int, int],
    keep: bool,
    tokens_first: bool,
) -> None:
    options = Options(activation, dropout)
    inputs, dy = example(*shape, options, active=active, seed=sum(shape))
    found = run(inputs, options, dy, seed=seed, keep=keep, tokens_first=tokens_first)
    assert_close(found, experts(inputs, options, dy, seed), 1e-4)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_bits_depend_neither_on_keep_nor_on_which_axis_is_first(activation: str, dtype: tf.DType) -> None:
    options = Options(activation, dropout=0.2)
    inputs, dy = example(600, 3, 24, 2, 50, options, active=0.6)
    kept = run(inputs, options, dy, dtype=dtype, seed=SEED)
    assert_same_bits(kept, run(inputs, options, dy, dtype=dtype, seed=SEED, keep=False))
    assert_same_bits(kept, run(inputs, options, dy, dtype=dtype, seed=SEED, tokens_first=True))
    assert all(kept.gradients[name].any() for name in INPUTS)


def test_a_row_has_the_same_bits_in_any_batch() -> None:
    # Whatever rows an expert computes together: a row's sum does not depend on the others.
    options = Options()
    inputs, dy = example(900, 2, 24, 3, 40, options)
    whole = run(inputs, options, dy)
    for part in (slice(0, 1), slice(5, 300), slice(100, 900)):
        of_part = {**inputs, "tokens": inputs["tokens"][part], "gates": inputs["gates"][part]}
        found = run(of_part, options, dy[part])
        np.testing.assert_array_equal(found.y, whole.y[part])
        for name in ("tokens", "gates"):
            np.testing.assert_array_equal(found.gradients[name], whole.gradients[name][part], err_msg=name)


@pytest.mark.parametrize("tokens_first", [False, True])
def test_what_is_kept_are_the_pairs_whose_gate_is_not_zero(tokens_first: bool) -> None:
    options = Options()
    inputs, _ = example(50, 3, 8, 4, 6, options)
    of = {name: tf.constant(value, tf.float32) for name, value in inputs.items()}
    if tokens_first:
        of["tokens"], of["gates"] = (tf.transpose(of[name], [1, 0, 2]) for name in ("tokens", "gates"))
    _, kept = load_rankmixer().ps_cluster_sparse_experts(
        *of.values(), tf.zeros([2], tf.int64), tokens_first=tokens_first
    )
    expected = [
        inputs["tokens"][row, token] @ inputs["w1"][token, expert] + inputs["b1"][token, expert]
        for token in range(3)
        for expert in range(4)
        for row in np.flatnonzero(inputs["gates"][:, token, expert])
    ]
    np.testing.assert_allclose(kept, np.array(expected), atol=1e-5)


def test_gradient_of_a_router_with_relu_is_that_of_the_dense_sum() -> None:
    # A skipped gate's own gradient is not 0 in the dense sum, but a ReLU passes none on.
    options = Options()
    inputs, dy = example(40, 2, 8, 4, 6, options, active=1.0)
    router = np.random.default_rng(1).standard_normal([8, 4])

    def gradients(dtype: tf.DType, fused: bool) -> list[tf.Tensor]:
        tokens, w1, b1, w2, b2 = (tf.constant(inputs[name], dtype) for name in INPUTS if name != "gates")
        kernel = tf.constant(router, dtype)
        with tf.GradientTape() as tape:
            tape.watch([tokens, kernel])
            gates = tf.nn.relu(tf.einsum("btd,de->bte", tokens, kernel))
            if fused:
                y = sparse_experts(tokens, gates, w1, b1, w2, b2)
            else:
                inner = tf.einsum("btd,tedh->bteh", tokens, w1) + b1
                hidden = 0.5 * inner * (1.0 + tf.math.erf(inner / np.sqrt(2.0)))
                y = tf.einsum("bte,bted->btd", gates, tf.einsum("bteh,tehd->bted", hidden, w2) + b2)
        assert 0.2 < np.mean(gates.numpy() == 0) < 0.8
        return tape.gradient(y, [tokens, kernel], output_gradients=tf.constant(dy, dtype))

    for ours, dense in zip(gradients(tf.float32, True), gradients(tf.float64, False)):
        np.testing.assert_allclose(ours, dense, atol=1e-4 * float(tf.reduce_max(tf.abs(dense))))


def test_numeric_gradient_of_the_op_itself() -> None:
    inputs, _ = example(2, 2, 4, 3, 5, Options(), active=1.0)
    of = [tf.constant(inputs[name], tf.float32) for name in INPUTS]
    for analytic, numeric in zip(*tf.test.compute_gradient(sparse_experts, of, delta=2**-7)):
        np.testing.assert_allclose(analytic, numeric, atol=5e-3)


def test_gates_of_another_type_are_cast_there_and_back() -> None:
    options = Options()
    inputs, _ = example(10, 2, 8, 3, 6, options)
    of = {name: tf.constant(value, tf.float32) for name, value in inputs.items()}
    half = tf.cast(of["gates"], tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(half)
        y = sparse_experts(**{**of, "gates": half})
    np.testing.assert_array_equal(y, sparse_experts(**{**of, "gates": tf.cast(half, tf.float32)}))
    gradient = tape.gradient(y, half)
    assert gradient.dtype == tf.float16 and gradient.numpy().any()


def test_dropped_units_depend_on_seed_token_expert_and_row_only() -> None:
    options = Options(dropout=0.5)
    inputs, dy = example(40, 3, 16, 4, 32, options, active=0.7)
    whole = run(inputs, options, dy, seed=SEED)
    part = {**inputs, "tokens": inputs["tokens"][:7], "gates": inputs["gates"][:7]}
    np.testing.assert_array_equal(run(part, options, dy[:7], seed=SEED).y, whole.y[:7])
    others = inputs["gates"].copy()
    others[:, :, 1] = 0.0  # the masks of the other experts stay
    alone = {**inputs, "gates": inputs["gates"] - others}
    sum_of_two = run({**inputs, "gates": others}, options, dy, seed=SEED).y + run(alone, options, dy, seed=SEED).y
    np.testing.assert_allclose(sum_of_two, whole.y, atol=1e-5)
    assert (run(inputs, options, dy, seed=(3, -4)).y != whole.y).any(axis=-1)[inputs["gates"].any(-1)].all()
