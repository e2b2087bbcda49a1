"""Push runs the optimiser on the rows that a step names."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from ops.embedding import push, request_header, route_ids
from tests.ops.tables import ENGINES, Group, frequency, keys_of, last_step, layout_of


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_of_a_repeated_id_are_summed(engine: str) -> None:
    group = Group(layout_of(2, kind="zeros", engine=engine))
    ids = tf.constant([5, 5, 5, 6], tf.int64)
    header = request_header(0, tf.constant(1, tf.int64), tf.constant(1, tf.int64), tf.constant(1.0))
    (request,), positions = route_ids(header, [ids], [0], group.layout.salts, 1)
    rows = tf.zeros([2, 2])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        loss = tf.reduce_sum(tf.gather(rows, positions))
    gradient = tf.convert_to_tensor(tape.gradient(loss, rows))
    push(group.handles, request, gradient, group.layout, 1, group.name)
    np.testing.assert_array_equal(group.pull([5, 6], training=False), [[-3, -3], [-1, -1]])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_request_that_repeats_a_key_loses_nothing(num_workers: int, engine: str) -> None:
    group = Group(layout_of(1, kind="zeros", engine=engine))
    if num_workers == 2:
        other = threading.Thread(target=lambda: group.push([], np.zeros([0, 1]), rank=1, num_workers=2, batch_rows=0))
        other.start()
    group.push([5, 5, 5, 6], np.ones([4, 1]), num_workers=num_workers)
    if num_workers == 2:
        other.join()
    np.testing.assert_array_equal(group.pull([5, 6], training=False), [[-3], [-1]])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_step_survives_up_to_the_largest_one(engine: str) -> None:
    group = Group(layout_of(2, engine=engine))
    for step in (1, (1 << 23) - 1, 1 << 30, 0x7F800001, (1 << 31) - 1):
        group.push([1], np.zeros([1, 2]), step)
        assert last_step(group.rows()[1]) == step


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_are_divided_by_the_rows_of_the_batch(engine: str) -> None:
    group = Group(layout_of(1, kind="zeros", engine=engine))
    group.push([1], np.array([[6.0]]), rate=0.5, batch_rows=3)
    np.testing.assert_array_equal(group.pull([1], training=False), [[-1]])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_without_rows_changes_nothing(engine: str) -> None:
    group = Group(layout_of(1, kind="zeros", engine=engine))
    group.push([1], np.array([[6.0]]), batch_rows=0)
    group.push([], np.zeros([0, 1]), batch_rows=0)
    group.push([], np.zeros([0, 1]), batch_rows=4)
    assert group.size() == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_of_a_group_are_updated_apart(engine: str) -> None:
    group = Group(layout_of(2, "adagrad", tables=("a", "b", "c"), engine=engine))
    group.push([[1, 2], [], [2]], np.ones([3, 2]))
    assert [sorted(group.rows(table)) for table in range(3)] == [[1, 2], [], [2]]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_rows_are_all_written_once(engine: str) -> None:
    group = Group(layout_of(16, "adam", kind="zeros", engine=engine))
    keys = np.random.default_rng(0).permutation(40_000)
    group.push(keys, np.ones([len(keys), 16]), rate=0.5)
    np.testing.assert_allclose(group.pull(np.arange(40_000), training=False), -0.5, rtol=1e-5)
    assert group.size() == 40_000


@pytest.mark.parametrize(
    ("shape", "found"), [([2, 3], r"\[2,3\]"), ([3, 2], r"\[3,2\]"), ([6], r"\[6\]"), ([0, 3], r"\[0,3\]")]
)
def test_gradients_of_a_wrong_shape_are_refused(shape: list[int], found: str) -> None:
    group = Group(layout_of(3))
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"gradients: expected shape \[3, 3\], found {found}"):
        group.push([1, 2, 3], np.zeros(shape))
    assert group.size() == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": 0}, "request: expected a step from 1 to 2.31 - 1, found 0"),
        ({"step": 1 << 31}, "request: expected a step from 0 to 2.31 - 1, found 2147483648"),
        ({"batch_rows": -1}, "request: expected a batch of 0 rows or more, found -1"),
        ({"rank": 2, "num_workers": 2}, "request: expected a rank below 2, found 2"),
        ({"rank": -1, "num_workers": 2}, "request: expected a rank below 2, found -1"),
    ],
)
def test_a_request_out_of_range_is_refused(changes: dict, message: str) -> None:
    group = Group(layout_of(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        group.push([1], np.zeros([1, 1]), **changes)


def test_a_request_of_a_wrong_shape_is_refused() -> None:
    group = Group(layout_of(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"request: expected a vector of at least 6 values"):
        push(group.handles, tf.zeros([4], tf.int64), tf.zeros([0, 1]), group.layout, 1, group.name)


def test_a_routed_request_may_be_pushed_as_it_is() -> None:
    group = Group(layout_of(2, kind="zeros", tables=("a", "b")))
    header = request_header(0, tf.constant(9, tf.int64), tf.constant(2, tf.int64), tf.constant(0.25))
    (request,), _ = route_ids(header, [tf.constant([7, 8, 7], tf.int64)], [1], group.layout.salts, 1)
    assert keys_of(request, 2) == [[], [7, 8]]
    push(group.handles, request, tf.ones([2, 2]), group.layout, 1, group.name)
    np.testing.assert_array_equal(group.pull([[], [7, 8]], training=False), np.full([2, 2], -0.125))


@pytest.mark.parametrize("engine", ENGINES)
def test_occurrences_add_up_to_the_frequency(engine: str) -> None:
    group = Group(layout_of(2, engine=engine))
    group.push([1, 2, 3], np.zeros([3, 2]), step=1, occurrences=[1, 5, 2**32 - 2])
    group.push([1, 3], np.zeros([2, 2]), step=2, occurrences=[7, 9])
    assert {key: (frequency(row), last_step(row)) for key, row in group.rows().items()} == {
        1: (8, 2),
        2: (5, 1),
        3: (2**32 - 1, 2),
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("transport", ["float16", "bfloat16"])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_gradients_that_travel_in_16_bits_are_summed_in_float32(transport: str, num_workers: int, engine: str) -> None:
    group = Group(layout_of(1, kind="zeros", engine=engine))
    pushes = [
        threading.Thread(
            target=lambda rank=rank: group.push(
                [5, rank], [[256.0], [0.1]], 1, rank=rank, num_workers=num_workers, transport=transport
            )
        )
        for rank in range(num_workers)
    ]
    for one in pushes:
        one.start()
    for one in pushes:
        one.join(60)
    tenth = float(tf.cast(tf.constant(0.1, transport), tf.float32))
    got = group.pull([5, *range(num_workers)], training=False)
    np.testing.assert_allclose(got, [[-256.0], *[[-tenth / num_workers]] * num_workers], rtol=1e-6)


def test_large_pushes_do_not_depend_on_their_threads() -> None:
    random = np.random.default_rng(3)
    keys = random.permutation(40_000)
    gradients = random.normal(size=[40_000, 8]).astype(np.float32)
    whole, parts = Group(layout_of(8, "adam")), Group(layout_of(8, "adam"))
    whole.push(keys, gradients)
    for some, of_some in zip(np.split(keys, 40), np.split(gradients, 40)):
        parts.push(some, of_some)
    rows, other = whole.rows(), parts.rows()
    assert rows.keys() == other.keys()
    assert all(rows[key].tobytes() == other[key].tobytes() for key in rows)
