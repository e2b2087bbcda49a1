"""Workers that push at the same time: a step is applied once, whole, and the same whatever came first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from ops.embedding import push, request_header
from tests.ops.tables import ENGINES, Group, layout_of


def together(calls: list[Callable[[], object]]) -> list[BaseException | None]:
    """Runs each call in a thread of its own; what each raised."""
    raised: list[BaseException | None] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            calls[index]()
        except BaseException as error:
            raised[index] = error

    threads = [threading.Thread(target=run, args=[index]) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def pusher(group: Group, num_workers: int) -> Callable[..., None]:
    """A `tf.function` that pushes; several calls of it run at once."""

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, group.layout.dim], tf.float32)],
    )
    def run(request: tf.Tensor, gradients: tf.Tensor) -> None:
        push(group.handles, request, gradients, group.layout, num_workers, group.name)

    run.get_concrete_function()
    return run


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_the_order_of_arrival_does_not_matter(optimizer: str, engine: str) -> None:
    workers, steps, dim = 4, 4, 5
    random = np.random.default_rng(11)
    plan = []
    for _ in range(steps):
        of_step = []
        for _ in range(workers):
            keys = random.choice(40, size=random.integers(0, 30), replace=False)
            gradients = random.normal(size=[len(keys), dim]) * 10.0 ** random.integers(-3, 4, size=[len(keys), 1])
            of_step.append((keys, gradients.astype(np.float32), int(random.integers(1, 9))))
        plan.append(of_step)

    def trained(delays: list[list[float]]) -> dict[int, np.ndarray]:
        group = Group(layout_of(dim, optimizer, engine=engine))
        run = pusher(group, workers)

        def work(rank: int) -> None:
            for step, of_step in enumerate(plan, start=1):
                keys, gradients, rows = of_step[rank]
                time.sleep(delays[step - 1][rank])
                run(group.request(keys, step, 0.1, rows, rank), tf.constant(gradients))

        assert together([lambda rank=rank: work(rank) for rank in range(workers)]) == [None] * workers
        return group.rows()

    first, last = ([[0.02 * rank for rank in order]] * steps for order in ([0, 1, 2, 3], [3, 2, 1, 0]))
    mixed = random.permuted(np.tile([0.0, 0.01, 0.02, 0.03], [steps, 1]), axis=1).tolist()
    results = [trained(delays) for delays in (first, last, mixed)]
    for other in results[1:]:
        assert other.keys() == results[0].keys()
        assert all(other[key].tobytes() == row.tobytes() for key, row in results[0].items())


def test_a_step_of_several_workers_is_the_mean_over_all_their_rows() -> None:
    random = np.random.default_rng(2)
    group = Group(layout_of(3, kind="zeros"))
    run = pusher(group, 3)
    total = np.zeros([50, 3])
    calls, rows_of = [], [8, 0, 5]
    for rank in range(3):
        keys = random.choice(50, size=30, replace=False)
        gradients = random.normal(size=[30, 3]).astype(np.float32)
        np.add.at(total, keys, gradients.astype(np.float64))
        request = group.request(keys, 1, 0.5, rows_of[rank], rank)
        calls.append(lambda request=request, gradients=gradients: run(request, tf.constant(gradients)))
    assert together(calls) == [None] * 3
    np.testing.assert_allclose(group.pull(np.arange(50), training=False), -0.5 * total / 13, rtol=1e-6, atol=1e-7)


def test_nobody_is_done_before_all_have_pushed() -> None:
    group = Group(layout_of(1, kind="zeros"))
    run = pusher(group, 2)
    ended: list[int] = []

    def work(rank: int) -> None:
        run(group.request([1], 1, 1.0, 1, rank), tf.ones([1, 1]))
        ended.append(rank)

    early = threading.Thread(target=work, args=[1])
    early.start()
    early.join(0.3)
    assert ended == [] and group.size() == 0
    work(0)
    early.join(30)
    assert sorted(ended) == [0, 1]
    np.testing.assert_array_equal(group.pull([1], training=False), [[-1]])


def test_a_second_push_of_one_worker_is_refused_and_the_first_one_counts() -> None:
    group = Group(layout_of(1, kind="zeros"))
    run = pusher(group, 2)
    waiting = threading.Thread(target=lambda: run(group.request([1], 3, 1.0, 1, 1), tf.ones([1, 1])))
    waiting.start()
    deadline = time.monotonic() + 30
    message = ""
    while "already" not in message and time.monotonic() < deadline:
        if not waiting.is_alive():
            break
        # Until the first push has arrived this one would itself be the first; a rank that waits is refused.
        time.sleep(0.2)
        try:
            run(group.request([1], 3, 1.0, 1, 1), 5 * tf.ones([1, 1]))
        except tf.errors.InvalidArgumentError as error:
            message = error.message
    assert "request: worker 1 has already pushed for step 3" in message
    run(group.request([1], 3, 1.0, 1, 0), tf.ones([1, 1]))
    waiting.join(30)
    np.testing.assert_array_equal(group.pull([1], training=False), [[-1]])


def test_a_cancelled_push_ends_and_may_be_made_again() -> None:
    group = Group(layout_of(1, kind="zeros"))
    manager = cancellation.CancellationManager()
    waiting = manager.get_cancelable_function(pusher(group, 2).get_concrete_function())
    raised: list[BaseException | None] = []
    thread = threading.Thread(
        target=lambda: raised.extend(together([lambda: waiting(group.request([1], 1, 1.0, 1, 1), tf.ones([1, 1]))]))
    )
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive()
    manager.start_cancel()
    thread.join(30)
    assert not thread.is_alive()
    assert isinstance(raised[0], tf.errors.CancelledError)
    assert group.size() == 0
    run = pusher(group, 2)
    calls = [lambda rank=rank: run(group.request([1], 1, 1.0, 1, rank), tf.ones([1, 1])) for rank in range(2)]
    assert together(calls) == [None, None]
    np.testing.assert_array_equal(group.pull([1], training=False), [[-1]])


def test_a_step_that_fails_fails_for_every_worker() -> None:
    group = Group(layout_of(2, engine="tfra_cuckoo"))
    wrong = Group(layout_of(2, "adam", engine="tfra_cuckoo"))
    wrong.layout, wrong.name = group.layout, group.name  # one buffer, but tables of another row layout
    right_push, wrong_push = pusher(group, 2), pusher(wrong, 2)
    late = threading.Event()

    def wait_then_push() -> None:
        late.wait(0.3)
        wrong_push(group.request([1], 1, 1.0, 1, 0), tf.ones([1, 2]))

    raised = together([lambda: right_push(group.request([1], 1, 1.0, 1, 1), tf.ones([1, 2])), wait_then_push])
    assert all(isinstance(error, tf.errors.InvalidArgumentError) for error in raised)
    assert all("tables[0]: expected int64 keys and rows of 4 float32" in str(error) for error in raised)


@pytest.mark.parametrize("engine", ENGINES)
def test_asynchronous_pushes_lose_no_update(engine: str) -> None:
    threads, pushes, keys = 8, 1000, np.arange(10)
    group = Group(layout_of(2, kind="zeros", engine=engine))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def work(request: tf.Tensor) -> None:
        for _ in tf.range(pushes):
            push(group.handles, request, tf.ones([10, 2]), group.layout, 1, group.name)

    requests = [group.request(keys, 1, -1.0, 1, rank) for rank in range(threads)]
    work.get_concrete_function()
    assert together([lambda request=request: work(request) for request in requests]) == [None] * threads
    np.testing.assert_array_equal(group.pull(keys, training=False), np.full([10, 2], threads * pushes))


def test_groups_and_steps_wait_apart() -> None:
    first, second = Group(layout_of(1, kind="zeros")), Group(layout_of(1, kind="zeros"))
    runs = [pusher(first, 2), pusher(second, 2)]
    calls = [
        lambda rank=rank, group=group, run=run, step=step: run(
            group.request([step], step, 1.0, 1, rank), tf.ones([1, 1])
        )
        for rank in range(2)
        for group, run in zip((first, second), runs)
        for step in (1, 2)
    ]
    assert together(calls) == [None] * 8
    for group in (first, second):
        np.testing.assert_array_equal(group.pull([1, 2], training=False), [[-1], [-1]])


def test_the_header_holds_any_learning_rate() -> None:
    for rate in (0.0, 1e-30, 0.1, 3e38, -2.5):
        header = request_header(1, tf.constant(2, tf.int64), tf.constant(3, tf.int64), tf.constant(rate))
        words = header.numpy()
        assert words[[0, 1, 2, 4]].tolist() == [1, 2, 3, 0]
        assert np.array(words[3] & 0xFFFFFFFF, np.uint32).view(np.float32) == np.float32(rate)
