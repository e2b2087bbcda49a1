"""Sparse experts: what is not a number, what is wrong, and what has no second derivative."""

from __future__ import annotations

import gc

import numpy as np
import psutil
import pytest
import tensorflow as tf

from ops.library import load_rankmixer
from ops.rankmixer_experts import sparse_experts
from tests.ops.rankmixer.experts_reference import INPUTS, Options, example
from tests.ops.rankmixer.experts_run import finite, run

NOT_FINITE = [np.nan, np.inf, -np.inf]


def tensors(batch: int = 6) -> dict[str, tf.Tensor]:
    inputs, _ = example(batch, 4, 12, 3, 24, Options())
    return {name: tf.constant(inputs[name], tf.float32) for name in INPUTS}


def test_without_rows_the_sum_is_empty_and_gradients_are_zero() -> None:
    options = Options()
    inputs, dy = example(0, 4, 12, 3, 24, options)
    result = run(inputs, options, dy)
    assert result.y.shape == (0, 4, 12) and result.gradients["gates"].shape == (0, 4, 3)
    assert not any(gradient.any() for gradient in result.gradients.values())


@pytest.mark.parametrize("keep", [False, True])
def test_where_all_gates_are_zero_so_is_everything(keep: bool) -> None:
    options = Options()
    inputs, dy = example(30, 4, 12, 3, 24, options)
    for zero in (0.0, -0.0):
        result = run({**inputs, "gates": np.full([30, 4, 3], zero)}, options, dy, keep=keep)
        assert not result.y.any() and not any(gradient.any() for gradient in result.gradients.values())


def test_a_row_whose_gates_are_all_zero_has_no_result_and_no_gradient() -> None:
    options = Options()
    inputs, dy = example(30, 4, 12, 3, 24, options)
    inputs["gates"][11, 2] = 0.0
    result = run(inputs, options, dy)
    assert not result.y[11, 2].any() and not result.gradients["tokens"][11, 2].any()
    assert result.y[11, 1].any() == inputs["gates"][11, 1].any()


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_token_that_is_not_finite_spoils_the_experts_of_its_gates_only(bad: float) -> None:
    options = Options()
    inputs, dy = example(40, 4, 12, 3, 30, options)
    inputs["gates"][17, 2] = [0.5, 0.0, 2.0]
    clean = run(inputs, options, dy)
    spoilt = {**inputs, "tokens": inputs["tokens"].copy()}
    spoilt["tokens"][17, 2, 5] = bad
    result = run(spoilt, options, dy)
    assert not np.isfinite(result.y[17, 2]).any()
    assert not np.isfinite(result.gradients["w1"][2, [0, 2]]).all(axis=(1, 2)).any()
    np.testing.assert_array_equal(result.gradients["w1"][2, 1], clean.gradients["w1"][2, 1])
    others = np.arange(40) != 17
    np.testing.assert_array_equal(result.y[others], clean.y[others])
    for name in ("tokens", "gates"):
        np.testing.assert_array_equal(result.gradients[name][others], clean.gradients[name][others])
    spoilt["gates"] = inputs["gates"].copy()
    spoilt["gates"][17, 2] = 0.0
    assert finite(run(spoilt, options, dy))


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_gate_that_is_not_finite_is_not_taken_for_zero(bad: float) -> None:
    options = Options()
    inputs, dy = example(40, 4, 12, 3, 30, options)
    clean = run(inputs, options, dy)
    spoilt = {**inputs, "gates": inputs["gates"].copy()}
    spoilt["gates"][17, 2, 1] = bad
    result = run(spoilt, options, dy)
    assert not np.isfinite(result.y[17, 2]).any() and not np.isfinite(result.gradients["w2"][2, 1]).any()
    result.y[17, 2] = clean.y[17, 2]
    np.testing.assert_array_equal(result.y, clean.y)


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_weights_that_are_not_finite_spoil_the_rows_of_their_expert(bad: float) -> None:
    options = Options()
    inputs, dy = example(40, 4, 12, 3, 30, options)
    inputs["w2"][2, 1, 7, :] = bad
    y = run(inputs, options, dy).y
    np.testing.assert_array_equal(np.isfinite(y).all(-1)[:, 2], inputs["gates"][:, 2, 1] == 0)
    assert np.isfinite(np.delete(y, 2, axis=1)).all()


OTHER = {
    "tokens": ([6, 4], r"tokens: expected the shape \[batch, tokens, dim\], found \[6,4\]"),
    "gates": ([6, 4, 2], r"gates: expected the shape \[6,4,3\], found \[6,4,2\]"),
    "w1": ([4, 3, 12, 25], r"w1: expected the shape \[4,3,12,24\], found \[4,3,12,25\]"),
    "b1": ([4, 24], r"b1: expected the shape \[4,3,24\], found \[4,24\]"),
    "w2": ([3, 24, 12], r"w2: expected the shape \[tokens, experts, hidden, dim\], found \[3,24,12\]"),
    "b2": ([4, 3, 11], r"b2: expected the shape \[4,3,12\], found \[4,3,11\]"),
}


@pytest.mark.parametrize("name", OTHER)
def test_input_of_another_shape_is_named(name: str) -> None:
    shape, message = OTHER[name]
    of = {**tensors(), name: tf.zeros(shape)}
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        sparse_experts(**of)

    # The same where shapes are not known before values are there.
    @tf.function(input_signature=[tf.TensorSpec(None)] * 6)
    def unknown(*of: tf.Tensor) -> tf.Tensor:
        return sparse_experts(*of)

    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        unknown(*of.values())


def test_errors_say_which_axis_is_first() -> None:
    of = {**tensors(), "tokens": tf.zeros([4, 6])}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected the shape \[tokens, batch, dim\]"):
        sparse_experts(**of, tokens_first=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"w1: expected the shape \[6,3,12,24\], found \[4,"):
        sparse_experts(**tensors(), tokens_first=True)


def test_swiglu_wants_a_first_product_twice_as_wide() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"w1: expected the shape \[4,3,12,48\], found \[4,3,12,"):
        sparse_experts(**tensors(), activation="swiglu")


def test_experts_without_hidden_units_are_refused() -> None:
    of = {**tensors(), "w1": tf.zeros([4, 3, 12, 0]), "b1": tf.zeros([4, 3, 0]), "w2": tf.zeros([4, 3, 0, 12])}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"w2: expected no size that is 0, found \[4,3,0,12\]"):
        sparse_experts(**of)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_dropout_out_of_range_is_refused(dropout: float) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="dropout: expected a share from 0 to below 1, found"):
        sparse_experts(**tensors(), dropout=dropout, seed=tf.zeros([2], tf.int64))


def test_dropout_needs_a_seed_of_two_numbers() -> None:
    with pytest.raises(ValueError, match=r"seed: expected int64 \[2\] with dropout 0\.5, found none"):
        sparse_experts(**tensors(), dropout=0.5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"seed: expected the shape \[2\], found \[3\]"):
        sparse_experts(**tensors(), dropout=0.5, seed=tf.zeros([3], tf.int64))


@pytest.mark.parametrize("rows", [-1, 1])
def test_gradient_refuses_what_was_kept_by_other_gates(rows: int) -> None:
    of = tensors()
    pairs = int(tf.math.count_nonzero(of["gates"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"kept_inner: expected the shape \[{pairs},24\], found"):
        load_rankmixer().ps_cluster_sparse_experts_grad(
            of["tokens"], *of.values(), tf.zeros([2], tf.int64), tf.zeros([pairs + rows, 24])
        )


def test_gradient_refuses_an_upstream_gradient_of_another_shape() -> None:
    of = tensors()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy: expected the shape \[6,4,12\], found \[5,4,12\]"):
        load_rankmixer().ps_cluster_sparse_experts_grad(
            of["tokens"][:5], *of.values(), tf.zeros([2], tf.int64), tf.zeros([0, 0])
        )


def test_second_derivative_is_an_error() -> None:
    of = tensors()
    with tf.GradientTape() as outer:
        outer.watch(of["tokens"])
        with tf.GradientTape() as tape:
            tape.watch(of["tokens"])
            y = sparse_experts(**of)
        gradient = tape.gradient(y, of["tokens"])
    with pytest.raises(NotImplementedError, match="no second derivative"):
        outer.gradient(gradient, of["tokens"])


@pytest.mark.parametrize("keep", [False, True])
def test_function_of_any_batch_is_traced_once(keep: bool) -> None:
    of = tensors()

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 12]), tf.TensorSpec([None, 4, 3])])
    def step(tokens: tf.Tensor, gates: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            y = sparse_experts(**{**of, "tokens": tokens, "gates": gates}, keep=keep)
            assert y.shape.as_list() == [None, 4, 12]
        return y, tape.gradient(y, tokens)

    whole = step(of["tokens"], of["gates"])
    for batch in (0, 1, 5):
        for part, all_rows in zip(step(of["tokens"][:batch], of["gates"][:batch]), whole):
            np.testing.assert_array_equal(part, all_rows[:batch])
    assert step.experimental_get_tracing_count() == 1


def test_steps_do_not_take_memory() -> None:
    inputs, _ = example(64, 8, 64, 4, 64, Options())
    of = {name: tf.constant(inputs[name], tf.float32) for name in INPUTS}

    @tf.function
    def step() -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(of)
            y = sparse_experts(**of)
        return tape.gradient(y, of)

    steps, sizes = 300, []
    for _ in range(2):
        for _ in range(steps):
            step()
        gc.collect()
        sizes.append(psutil.Process().memory_info().rss)
    # One step's gradients are 1 MB: a leak of any of them would show.
    assert sizes[1] - sizes[0] < steps * 10_000
