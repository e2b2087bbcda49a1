"""Results of 2 MiB and more, which take the memory that earlier ones left."""

from __future__ import annotations

import gc
import multiprocessing
from multiprocessing.connection import Connection

import numpy as np
import psutil
import pytest
import tensorflow as tf

from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block
from tests.ops.rankmixer import experts_reference, experts_run
from tests.ops.rankmixer.fused import assert_same_bits, run
from tests.ops.rankmixer.reference import WEIGHTS, Array, example

MIB = 1 << 20


def spoilt(values: Array) -> Array:
    return np.full_like(values, np.nan)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("options", [BlockOptions(), BlockOptions("pre_rms", "swiglu")])
def test_what_the_memory_held_before_is_in_no_result_of_a_block(
    options: BlockOptions, keep: bool, dtype: tf.DType
) -> None:
    # y, what is kept, the workspace and the gradients of x, w1 and w2 are all of 2 MiB or more, float32 or not.
    x, weights, dy = example(640, 24, 96, 480, options)
    clean = run(x, weights, options, dy, keep=keep, dtype=dtype)
    nothing = run(spoilt(x), {name: spoilt(value) for name, value in weights.items()}, options, spoilt(dy), keep=keep)
    assert np.isnan(nothing.y).all() and np.isnan(nothing.gradients["w1"]).all()
    assert_same_bits(run(x, weights, options, dy, keep=keep, dtype=dtype), clean)
    assert np.isfinite(clean.y).all() and all(np.isfinite(value).all() for value in clean.gradients.values())


@pytest.mark.parametrize("keep", [True, False])
def test_what_the_memory_held_before_is_in_no_result_of_experts(keep: bool) -> None:
    options = experts_reference.Options()
    inputs, dy = experts_reference.example(1_024, 8, 80, 6, 200, options)
    clean = experts_run.run(inputs, options, dy, keep=keep)
    nothing = {name: value if name == "gates" else spoilt(value) for name, value in inputs.items()}
    assert np.isnan(experts_run.run(nothing, options, spoilt(dy), keep=keep).y).any()
    again = experts_run.run(inputs, options, dy, keep=keep)
    assert_same_bits(again, clean)
    assert np.isfinite(clean.y).all() and all(np.isfinite(value).all() for value in clean.gradients.values())


def test_results_that_are_held_keep_their_numbers_while_others_are_computed() -> None:
    x, weights, _ = example(768, 16, 64, 64, BlockOptions())
    of = BlockWeights(*(tf.constant(weights[name], tf.float32) for name in WEIGHTS))
    inputs = [tf.constant(x * scale, tf.float32) for scale in (1, -2, 3)]
    held = [rankmixer_block(one, of, BlockOptions()) for one in inputs for _ in range(3)]
    copies = [one.numpy().copy() for one in held]
    for one in inputs * 5:
        rankmixer_block(one, of, BlockOptions())
    for one, copy in zip(held, copies, strict=True):
        np.testing.assert_array_equal(one.numpy(), copy)


def resident() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def resident_before_during_and_after_large_results(told: Connection, batch_after: int) -> None:
    options = BlockOptions()
    _, weights, _ = example(1, 4, 64, 64, options)
    of = BlockWeights(*(tf.constant(weights[name], tf.float32) for name in WEIGHTS))
    small, large = (tf.zeros([batch, 4, 64]) for batch in (batch_after, 98_304))

    def resident_after(tokens: tf.Tensor, steps: int) -> int:
        for _ in range(steps):
            rankmixer_block(tokens, of, options, keep=False)
        return resident()

    told.send([resident_after(small, 1_500), resident_after(large, 3), resident_after(small, 1_500)])


@pytest.mark.parametrize("batch_after", [10, 3_000])
def test_memory_is_given_back_when_no_result_of_its_size_is_asked_for_any_more(batch_after: int) -> None:
    fresh = multiprocessing.get_context("spawn")
    ours, theirs = fresh.Pipe()
    process = fresh.Process(target=resident_before_during_and_after_large_results, args=(theirs, batch_after))
    process.start()
    assert ours.poll(300), "nothing told within 300 s"
    before, during, after = ours.recv()
    process.join(60)
    # y and the workspace are of 96 MiB each; they stay for the next step.
    assert 180 * MIB < during - before < 230 * MIB
    assert after - before < 40 * MIB


def test_memory_does_not_grow_with_the_number_of_batch_sizes() -> None:
    options = BlockOptions()
    _, weights, _ = example(1, 4, 64, 64, options)
    of = BlockWeights(*(tf.constant(weights[name], tf.float32) for name in WEIGHTS))
    random = np.random.default_rng(0)
    grown = []
    for _ in range(3):
        for batch in random.integers(3_000, 16_384, 60):
            rankmixer_block(tf.zeros([int(batch), 4, 64]), of, options, keep=False)
        grown.append(resident())
    assert grown[2] - grown[0] < 32 * MIB
