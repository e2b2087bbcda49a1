"""Pull reads embeddings and changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ops.embedding import RowLayout, pull
from ps_cluster.embedding import cuckoo
from tests.ops.tables import ENGINES, Group, layout_of


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unseen_id_is_its_initial_value_when_training_and_zeros_otherwise(engine: str) -> None:
    group = Group(layout_of(3, engine=engine))
    assert (group.pull([1, 2], training=False) == 0).all()
    assert (group.pull([1, 2], training=True) != 0).all()
    assert group.size() == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_written_row_reads_the_same_either_way(engine: str) -> None:
    group = Group(layout_of(3, "adam", engine=engine))
    group.push([4], np.ones([1, 3]))
    np.testing.assert_array_equal(group.pull([4], training=False), group.pull([4], training=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_come_in_the_order_of_the_request(engine: str) -> None:
    group = Group(layout_of(2, kind="zeros", tables=("a", "b"), engine=engine))
    group.push([[1, 2], [1, 3]], np.arange(8).reshape(4, 2))
    np.testing.assert_array_equal(group.pull([[2, 9, 1], [3]], training=False), [[-2, -3], [0, 0], [0, -1], [-6, -7]])


@pytest.mark.parametrize("engine", ENGINES)
def test_wide_rows_are_whole(engine: str) -> None:
    # TFRA stores rows of more than 100 floats in another way.
    group = Group(layout_of(64, "adam", kind="normal", engine=engine))
    start = group.pull(np.arange(300))
    group.push(np.arange(300), np.zeros([300, 64]))
    np.testing.assert_array_equal(group.pull(np.arange(300), training=False), start)
    assert len(group.rows()[7]) == 3 * 64 + 2


def test_no_keys_give_no_rows() -> None:
    group = Group(layout_of(3, tables=("a", "b")))
    assert group.pull([[], []]).shape == (0, 3)


@pytest.mark.parametrize(
    ("request_words", "message"),
    [
        ([1, 1, 1], r"request: expected a vector of at least 6 values, found shape \[3\]"),
        ([[1, 1, 1, 1, 0, 0]], r"request: expected a vector of at least 6 values, found shape \[1,6\]"),
        ([1, 1, 1, 1, 0, 2, 9], r"request: table 0 announces 2 keys, but the tensor holds 1 words for keys and their"),
        ([1, 1, 1, 1, 0, -1, 9], r"request: table 0 announces -1 keys, but the tensor holds 1 words"),
        ([1, 1, 1, 1, 0, 1 << 62, 9], r"request: table 0 announces 4611686018427387904 keys"),
        ([1, 1, 1, 1, 0, 0, 9], r"request: the tables announce 0 keys, which .* are 0 words, but the tensor holds 1"),
        ([1, 1, 1, 1, 0, 1, 9], r"request: the tables announce 1 keys, which .* are 2 words, but the tensor holds 1"),
        ([1, -1, 1, 1, 0, 0], r"request: expected a step from 0 to 2\^31 - 1, found -1"),
        ([1, 1, 1, 1, 1 << 31, 0], r"request: expected an hour from 0 to 2\^31 - 1, found 2147483648"),
    ],
)
def test_a_wrong_request_is_refused(request_words: list, message: str) -> None:
    group = Group(layout_of(3))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        pull(group.handles, tf.constant(request_words, tf.int64), group.layout, True)


def test_a_table_of_another_row_layout_is_refused() -> None:
    group = Group(layout_of(3, "adam", engine="tfra_cuckoo"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tables\[0\]: expected int64 keys and rows of 5 float32"):
        pull(group.handles, group.request([1]), layout_of(3, "sgd"), True)
    group = Group(layout_of(3))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tables\[0\]: expected embeddings of 4 values, found 3"):
        pull(group.handles, group.request([1]), layout_of(4), True)


def test_a_table_that_is_not_there_is_refused() -> None:
    handle = cuckoo.create("test-gone", 4, "/CPU:0")
    tf.raw_ops.DestroyResourceOp(resource=handle)
    group = Group(layout_of(3))
    with pytest.raises(tf.errors.NotFoundError):
        pull([handle], group.request([1]), group.layout, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adam"}, "optimizer adam: expected 4 settings, found 1"),
        (
            {"optimizer": "lion"},
            "optimizer: expected sgd, momentum, adagrad, adam, adamw, rmsprop or ftrl, found 'lion'",
        ),
        (
            {"optimizer": "adam", "optimizer_settings": (0.9, 1.0, 1e-7, 0.0)},
            "optimizer adam: beta_2: expected a number of at least 0 and below 1, found 1",
        ),
        ({"initial_kinds": (3,)}, r"initial_kinds\[0\]: expected 0 \(zeros\), 1 \(uniform\) or 2 \(normal\), found 3"),
        ({"initial_scales": ()}, "initial_kinds, initial_scales, salts: expected 1 values each, found 1, 0, 1"),
    ],
)
def test_wrong_attributes_are_named(changes: dict, message: str) -> None:
    group = Group(layout_of(3))
    layout = RowLayout(**{**vars(group.layout), **changes})
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        pull(group.handles, group.request([1]), layout, True)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("transport", ["float16", "bfloat16"])
def test_embeddings_may_travel_in_16_bits(engine: str, transport: str) -> None:
    group = Group(layout_of(7, kind="normal", engine=engine))
    keys = np.arange(3000)  # more than are narrowed at a time
    group.push(keys[::2], np.ones([1500, 7]))
    whole, narrow = group.pull(keys), group.pull(keys, transport=transport)
    assert narrow.dtype == tf.as_dtype(transport).as_numpy_dtype
    np.testing.assert_array_equal(narrow, tf.cast(whole, transport))


def test_a_large_batch_is_pulled_by_several_threads_alike() -> None:
    group = Group(layout_of(16, kind="normal"))
    keys = np.random.default_rng(0).permutation(60_000)
    group.push(keys[:30_000], np.ones([30_000, 16]))
    whole = group.pull(keys)
    np.testing.assert_array_equal(np.concatenate([group.pull(part) for part in np.split(keys, 60)]), whole)
