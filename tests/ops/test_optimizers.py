"""The optimisers of the push op: equal to tf-keras where every row occurs, lazy by definition where not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tests.ops.tables import ENGINES, SETTINGS, Group, layout_of

RATE = 0.02
# tf-keras (not its legacy) takes Adam's bias correction from beta_2 in float32 and its second moment from 1 - beta_2 in
# float64: by that its movement is 7e-6 too short, which the exact one shows at a rate of 0.02.
ADAM_RATE = 0.002
keras = tf_keras.optimizers
legacy = tf_keras.optimizers.legacy
ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
FTRL = {
    "learning_rate_power": -0.5,
    "initial_accumulator_value": 0.1,
    "l1_regularization_strength": 0.05,
    "l2_regularization_strength": 0.2,
    "l2_shrinkage_regularization_strength": 0.3,
    "beta": 0.4,
}
FTRL_SETTINGS = (-0.5, 0.1, 0.05, 0.2, 0.3, 0.4)
# Optimiser, its settings without the clipping, the same in tf-keras.
CASES: dict[str, tuple[str, tuple[float, ...], Callable[..., tf_keras.optimizers.Optimizer]]] = {
    "sgd": ("sgd", (), lambda **clip: keras.SGD(RATE, **clip)),
    "sgd, legacy": ("sgd", (), lambda **clip: legacy.SGD(RATE, **clip)),
    "momentum": ("momentum", (0.9, 0), lambda **clip: keras.SGD(RATE, 0.9, **clip)),
    "momentum, legacy": ("momentum", (0.9, 0), lambda **clip: legacy.SGD(RATE, 0.9, **clip)),
    "nesterov": ("momentum", (0.9, 1), lambda **clip: keras.SGD(RATE, 0.9, nesterov=True, **clip)),
    "nesterov, legacy": ("momentum", (0.9, 1), lambda **clip: legacy.SGD(RATE, 0.9, nesterov=True, **clip)),
    "adagrad": ("adagrad", (0.1, 1e-7, 1, 1), lambda **clip: keras.Adagrad(RATE, 0.1, 1e-7, **clip)),
    "adam": ("adam", (0.9, 0.999, 1e-7), lambda **clip: keras.Adam(ADAM_RATE, **ADAM, **clip)),
    "adam, legacy": ("adam", (0.9, 0.999, 1e-7), lambda **clip: legacy.Adam(RATE, **ADAM, **clip)),
    "adamw": ("adamw", (0.9, 0.999, 1e-7, 0.3), lambda **clip: keras.AdamW(ADAM_RATE, 0.3, **ADAM, **clip)),
    "rmsprop": ("rmsprop", (0.9, 0, 1e-3), lambda **clip: keras.RMSprop(RATE, 0.9, 0.0, 1e-3, **clip)),
    "rmsprop, momentum": ("rmsprop", (0.9, 0.8, 1e-3), lambda **clip: keras.RMSprop(RATE, 0.9, 0.8, 1e-3, **clip)),
    "rmsprop, momentum, legacy": (
        "rmsprop",
        (0.9, 0.8, 1e-3),
        lambda **clip: legacy.RMSprop(RATE, 0.9, 0.8, 1e-3, **clip),
    ),
    "ftrl": ("ftrl", FTRL_SETTINGS, lambda **clip: keras.Ftrl(RATE, **FTRL, **clip)),
    "ftrl, legacy": ("ftrl", FTRL_SETTINGS, lambda **clip: legacy.Ftrl(RATE, **FTRL, **clip)),
    "ftrl, another power": (
        "ftrl",
        (-0.4, *FTRL_SETTINGS[1:]),
        lambda **clip: keras.Ftrl(RATE, **{**FTRL, "learning_rate_power": -0.4}, **clip),
    ),
}


def steps_of_both(case: str, rows: int, steps: int, clip_norm: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows `[rows, 20]` after the same steps, ours and those of tf-keras in float64."""
    optimizer, settings, make = CASES[case]
    random = np.random.default_rng(4)
    group = Group(layout_of(20, optimizer, "normal", scale=0.5, settings=(*settings, clip_norm)))
    keys = np.arange(rows) * 3
    variable = tf.Variable(group.pull(keys), dtype=tf.float64)
    reference = make(**({"clipnorm": clip_norm} if clip_norm else {}))
    rate = float(reference.learning_rate)
    if not isinstance(reference, legacy.Optimizer):
        reference.build([variable])

    @tf.function(autograph=False)
    def apply(gradient: tf.Tensor) -> None:
        reference.apply_gradients([(gradient, variable)])

    for step in range(1, steps + 1):
        order = random.permutation(rows)
        gradient = random.normal(size=[rows, 20]).astype(np.float32) * np.float32(0.045)
        group.push(keys[order], 4 * gradient[order], step, rate, batch_rows=4)
        apply(tf.constant(gradient, tf.float64))
    return group.pull(keys), variable.numpy()


@pytest.mark.parametrize("case", CASES)
def test_a_hundred_steps_equal_tf_keras_where_every_row_occurs(case: str) -> None:
    ours, expected = steps_of_both(case, rows=6, steps=100, clip_norm=0.0)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("case", ["sgd", "adam"])
def test_one_rows_clipping_equals_that_of_tf_keras(case: str) -> None:
    # Norms are around 0.2: some gradients are clipped, some not.
    ours, expected = steps_of_both(case, rows=1, steps=30, clip_norm=0.2)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    unclipped, _ = steps_of_both(case, rows=1, steps=30, clip_norm=0.0)
    assert np.abs(unclipped - ours).max() > 1e-4


SLOTS = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "adamw": 2, "rmsprop": 1, "ftrl": 2}


def lazy_reference(optimizer: str, row: np.ndarray, dim: int, gradient: np.ndarray, step: int, rate: float) -> None:
    """One update of a float64 row in place, with `SETTINGS`."""
    settings = SETTINGS[optimizer]
    w, first, second = row[:dim], row[dim : 2 * dim], row[2 * dim :]
    if optimizer == "sgd":
        w -= rate * gradient
    elif optimizer == "momentum":
        first[:] = settings[0] * first - rate * gradient
        w += first
    elif optimizer == "adagrad":
        first += gradient**2
        w -= rate * gradient / np.sqrt(first + settings[1])
    elif optimizer in ("adam", "adamw"):
        beta_1, beta_2, epsilon, decay = settings[:4]
        if optimizer == "adamw":
            w -= rate * decay * w
        first[:] = beta_1 * first + (1 - beta_1) * gradient
        second[:] = beta_2 * second + (1 - beta_2) * gradient**2
        corrected = rate * np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
        w -= corrected * first / (np.sqrt(second) + epsilon)
    elif optimizer == "rmsprop":
        rho, _, epsilon, _ = settings
        first[:] = rho * first + (1 - rho) * gradient**2
        w -= rate * gradient / np.sqrt(first + epsilon)
    else:
        before, after = np.sqrt(first), np.sqrt(first + gradient**2)
        first += gradient**2
        second += gradient - (after - before) / rate * w
        w[:] = -second / (after / rate)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimizer", SLOTS)
def test_rows_that_do_not_occur_keep_everything(optimizer: str, engine: str) -> None:
    random = np.random.default_rng(5)
    dim = 3
    group = Group(layout_of(dim, optimizer, "normal", scale=0.5, engine=engine))
    slots = np.zeros(SLOTS[optimizer] * dim)
    if optimizer in ("adagrad", "ftrl"):
        slots[:dim] = 0.1
    reference: dict[int, np.ndarray] = {}
    for step in range(1, 60):
        keys = random.choice(30, size=random.integers(0, 12), replace=False)
        gradient = random.normal(size=[len(keys), dim]).astype(np.float32)
        for key, start in zip(keys.tolist(), group.pull(keys)):
            reference.setdefault(key, np.concatenate([start.astype(np.float64), slots]))
        untouched = {key: row for key, row in group.rows().items() if key not in set(keys.tolist())}
        group.push(keys, gradient * 4, step, 0.1, batch_rows=4)
        after = group.rows()
        for key, row in untouched.items():
            assert after[key].tobytes() == row.tobytes()
        for key, of_key in zip(keys.tolist(), gradient.astype(np.float64)):
            lazy_reference(optimizer, reference[key], dim, of_key, step, 0.1)
    rows = group.rows()
    assert rows.keys() == reference.keys()
    for key, row in rows.items():
        np.testing.assert_allclose(row[: len(reference[key])], reference[key], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("case", ["momentum", "adam", "adamw", "rmsprop, momentum"])
def test_tf_keras_moves_rows_that_do_not_occur_and_ours_rest(case: str) -> None:
    optimizer, settings, make = CASES[case]
    group = Group(layout_of(2, optimizer, "normal", scale=0.5, settings=(*settings, 0.0)))
    row = tf.Variable(group.pull([1])[0])
    reference = make()
    rate = float(reference.learning_rate)
    gradient = np.array([[0.3, -0.1]], np.float32)
    group.push([1], gradient, 1, rate)
    reference.apply_gradients([(tf.constant(gradient[0]), row)])
    here, there = group.pull([1])[0], row.numpy()
    group.push([2], gradient, 2, rate)
    reference.apply_gradients([(tf.zeros(2), row)])
    np.testing.assert_array_equal(group.pull([1])[0], here)
    assert np.abs(row.numpy() - there).min() > 1e-4


@pytest.mark.parametrize("case", ["sgd", "adagrad", "rmsprop", "ftrl"])
def test_tf_keras_and_ours_leave_rows_without_gradient_alike(case: str) -> None:
    optimizer, settings, make = CASES[case]
    group = Group(layout_of(2, optimizer, "normal", scale=0.5, settings=(*settings, 0.0)))
    row = tf.Variable(group.pull([1])[0])
    reference = make()
    for step, gradient in enumerate([[0.3, -0.1], [0.0, 0.0], [0.0, 0.0]], start=1):
        if any(gradient):
            group.push([1], np.array([gradient]), step, RATE)
        reference.apply_gradients([(tf.constant(gradient), row)])
        if optimizer == "ftrl" and not any(gradient):  # its shrinkage is a gradient of its own
            assert np.abs(row.numpy() - group.pull([1])[0]).max() > 0
        else:
            np.testing.assert_allclose(group.pull([1])[0], row.numpy(), rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_adagrads_sum_decays_once_for_every_multiple_of_decay_steps_that_was_passed(engine: str) -> None:
    group = Group(layout_of(1, "adagrad", "zeros", settings=(0.1, 0.0, 0.5, 10, 0.0), engine=engine))
    total, last = 0.1, 0
    for step in (3, 9, 10, 11, 29, 30, 61, 1000):
        decays = step // 10 - last // 10 if last else 0
        total = max(total * 0.5**decays, 0.1) + 4.0
        group.push([1], np.array([[2.0]]), step)
        np.testing.assert_allclose(group.rows()[1][1], total, rtol=1e-6)
        last = step


def test_ftrl_takes_no_step_at_a_rate_of_zero() -> None:
    group = Group(layout_of(2, "ftrl", "normal", scale=0.5))
    start = group.pull([1])
    group.push([1], np.ones([1, 2]), rate=0.0)
    np.testing.assert_array_equal(group.pull([1]), start)


def test_ftrl_without_sums_gives_zeros() -> None:
    group = Group(layout_of(2, "ftrl", "normal", settings=(-0.5, 0, 0, 0, 0, 0, 0)))
    group.push([1], np.zeros([1, 2]))
    np.testing.assert_array_equal(group.pull([1]), np.zeros([1, 2]))


@pytest.mark.parametrize("dim", [1, 15, 16, 17, 40])
def test_a_gradient_is_clipped_by_the_norm_of_its_row(dim: int) -> None:
    group = Group(layout_of(dim, "sgd", "zeros", settings=(0.5,)))
    gradient = np.random.default_rng(dim).normal(size=[2, dim]).astype(np.float32)
    gradient /= np.linalg.norm(gradient, axis=1, keepdims=True)
    gradient[1] *= 0.25
    group.push([1, 2], gradient)
    np.testing.assert_allclose(group.pull([1, 2], training=False), -gradient * [[0.5], [1]], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("optimizer", SLOTS)
def test_every_optimizer_takes_the_clipped_gradient(optimizer: str) -> None:
    clipping = Group(layout_of(20, optimizer, "zeros", settings=(*SETTINGS[optimizer][:-1], 0.5)))
    plain = Group(layout_of(20, optimizer, "zeros"))
    random = np.random.default_rng(7)
    for step in (1, 2, 3):
        gradient = random.normal(size=[4, 20]).astype(np.float32)
        norms = np.linalg.norm(gradient, axis=1, keepdims=True)
        clipping.push(np.arange(4), gradient, step, 0.1)
        plain.push(np.arange(4), gradient * (0.5 / norms), step, 0.1)
    np.testing.assert_allclose(clipping.pull(np.arange(4)), plain.pull(np.arange(4)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("optimizer", SLOTS)
def test_many_rows_and_every_width_are_written(optimizer: str) -> None:
    """Wide rows go through vector instructions, narrow ones and the rest of a row do not: all agree."""
    random = np.random.default_rng(6)
    gradient = random.normal(size=[9, 37]).astype(np.float32)
    wide = Group(layout_of(37, optimizer, "zeros"))
    for step in (1, 2):
        wide.push(np.arange(9), gradient, step, 0.1)
    expected = wide.pull(np.arange(9))
    for dim in (1, 8, 20):
        group = Group(layout_of(dim, optimizer, "zeros"))
        for step in (1, 2):
            group.push(np.arange(9), gradient[:, :dim], step, 0.1)
        np.testing.assert_array_equal(group.pull(np.arange(9)), expected[:, :dim])
