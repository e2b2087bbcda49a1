"""Every row of every epoch is trained exactly once, however often the number of workers changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data.read.read_spec import Position
from ps_cluster.train.ledger import Consumed, Lease, Ledger, Segment, TrainingFile

Row = tuple[int, int, int]  # segment, epoch, row of the samples


def stream(seed: int, rows: int, num_shards: int, shard: int, epoch: int) -> list[int]:
    """The rows of a shard in an order of its own for each epoch: what a reader does, in two lines."""
    mine = np.arange(rows * shard // num_shards, rows * (shard + 1) // num_shards)
    return np.random.default_rng([seed, num_shards, shard, epoch]).permutation(mine).tolist()


def shard_rows(rows: int, num_shards: int) -> tuple[int, ...]:
    return tuple(len(stream(0, rows, num_shards, shard, 0)) for shard in range(num_shards))


def batches_of(lease: Lease, rows: int, batch_rows: int, drop: bool) -> Iterator[tuple[list[Row], Position]]:
    """The batches of a lease, each with the position behind it."""
    for epoch in range(lease.start.epoch, lease.epochs):
        order = stream(lease.segment, rows, lease.num_shards, lease.shard, epoch)
        row = lease.start.row if epoch == lease.start.epoch else 0
        while row < len(order) and Position(epoch, row) < lease.end:
            batch = order[row : row + batch_rows]
            if drop and len(batch) < batch_rows:
                break
            row += len(batch)
            assert Position(epoch, row) <= lease.end or lease.end == Position(epoch + 1, 0)
            yield [(lease.segment, epoch, one) for one in batch], Position(epoch, row)


def train(ledger: Ledger, sizes: Sequence[int], steps: int) -> tuple[Ledger, list[Row], int]:
    """So many steps of all workers: what is left then, the rows that were trained, the steps that had any."""
    trained: list[Row] = []
    consumed, longest = [], 0
    for lane in ledger.lanes:
        done, left = Consumed(0, lane[0].start if lane else Position()), steps
        for number, lease in enumerate(lane):
            done = Consumed(number, lease.start) if left else done
            for rows, position in batches_of(lease, sizes[lease.segment], ledger.batch_rows, ledger.drop_remainder):
                if not left:
                    break
                trained += rows
                left -= 1
                done = Consumed(number, position)
        longest = max(longest, steps - left)
        consumed.append(done)
    return ledger.advance(consumed), trained, longest


def dealt(ledger: Ledger, sizes: Sequence[int], workers: int) -> Ledger:
    ledger = ledger.deal(workers)
    for number, rows in enumerate(sizes):
        ledger = ledger.with_rows(number, shard_rows(rows, workers))
    return Ledger.from_json(json.loads(json.dumps(ledger.to_json())))


def of(sizes: Sequence[int], epochs: int, workers: int, batch: int, drop: bool = False, exact: bool = True) -> Ledger:
    ledger = Ledger.empty(batch, drop, workers)
    for number, rows in enumerate(sizes):
        file = TrainingFile(f"{number}.orc", number, rows)
        ledger = ledger.with_segment(Segment((file,), epochs, exact, (shard_rows(rows, workers),)))
    return ledger


STAGES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=6)
SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=2)


@settings(max_examples=400, deadline=None)
@given(SIZES, st.integers(1, 3), st.integers(1, 9), STAGES, st.booleans())
def test_every_row_of_every_epoch_is_trained_once_whatever_the_workers(
    sizes: list[int], epochs: int, batch: int, stages: list[tuple[int, int]], exact: bool
) -> None:
    ledger = of(sizes, epochs, stages[0][0], batch, exact=exact)
    trained: Counter[Row] = Counter()
    for workers, steps in [*stages, (stages[-1][0], 10**9)]:
        ledger = dealt(ledger, sizes, workers)
        left = ledger.rows()
        planned = ledger.steps
        ledger, rows, longest = train(ledger, sizes, steps)
        assert left - len(rows) == ledger.rows()
        assert longest == min(planned, steps)
        trained.update(rows)
    assert trained == Counter(
        {(number, epoch, row) for number, rows in enumerate(sizes) for epoch in range(epochs) for row in range(rows)}
    )
    assert ledger.steps == 0


@settings(max_examples=200, deadline=None)
@given(SIZES, st.integers(1, 3), st.integers(1, 9), STAGES)
def test_with_dropped_remainders_no_row_of_an_epoch_is_trained_twice(
    sizes: list[int], epochs: int, batch: int, stages: list[tuple[int, int]]
) -> None:
    ledger = of(sizes, epochs, stages[0][0], batch, drop=True)
    trained: Counter[Row] = Counter()
    for workers, steps in [*stages, (stages[-1][0], 10**9)]:
        ledger = dealt(ledger, sizes, workers)
        ledger, rows, _ = train(ledger, sizes, steps)
        assert len(rows) % batch == 0
        trained.update(rows)
    assert set(trained.values()) <= {1}
    assert ledger.steps == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 5), st.integers(1, 5), st.integers(0, 30))
def test_what_is_left_of_a_pass_is_dealt_out_to_one_batch(
    rows: int, batch: int, before: int, now: int, steps: int
) -> None:
    ledger, _, _ = train(of([rows], 1, before, batch), [rows], steps)
    ledger = dealt(ledger, [rows], now)
    batches = [ledger.batches(worker) for worker in range(now)]
    assert max(batches) - min(batches) <= 1


@settings(max_examples=100, deadline=None)
@given(SIZES, st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.lists(st.integers(0, 9), max_size=5))
def test_as_many_workers_as_before_each_go_on_in_their_own_stream(
    sizes: list[int], epochs: int, batch: int, workers: int, pauses: list[int]
) -> None:
    ledger = of(sizes, epochs, workers, batch)
    _, undisturbed, _ = train(ledger, sizes, 10**9)
    parts: list[list[Row]] = []
    for steps in [*pauses, 10**9]:
        ledger = dealt(ledger, sizes, workers)
        ledger, rows, _ = train(ledger, sizes, steps)
        parts.append(rows)
    if workers == 1:
        assert [row for part in parts for row in part] == undisturbed
    assert Counter(row for part in parts for row in part) == Counter(undisturbed)


def test_passes_that_nobody_has_begun_are_read_anew_by_all() -> None:
    ledger, _, _ = train(of([100], 3, 1, 10), [100], 4)
    ledger = dealt(ledger, [100], 2)
    assert ledger.lanes == (
        (
            Lease(0, 1, 0, Position(0, 40), Position(0, 70)),
            Lease(0, 2, 0, Position(1, 0), Position(3, 0)),
        ),
        (
            Lease(0, 1, 0, Position(0, 70), Position(1, 0)),
            Lease(0, 2, 1, Position(1, 0), Position(3, 0)),
        ),
    )
    assert ledger.steps == 3 + 2 * 5


def test_runs_of_rows_that_may_be_lost_are_not_cut() -> None:
    ledger, _, _ = train(of([100], 1, 2, 10, exact=False), [100], 1)
    ledger = dealt(ledger, [100], 3)
    assert ledger.lanes == (
        (Lease(0, 2, 0, Position(0, 10), Position(1, 0)),),
        (Lease(0, 2, 1, Position(0, 10), Position(1, 0)),),
        (),
    )


def test_segments_that_are_done_are_left_out_and_the_others_keep_their_leases() -> None:
    ledger = Ledger.empty(10, False, 2)
    for number in range(3):
        file = TrainingFile(f"{number}.orc", number, 40)
        ledger = ledger.with_segment(Segment((file,), 1, True, ((20, 20),)))
    left = ledger.advance([Consumed(2, Position(0, 10)), Consumed(1, Position())])
    kept, done = left.without_done()
    assert [segment.files[0].path for segment in done] == ["0.orc"]
    assert [segment.files[0].path for segment in kept.segments] == ["1.orc", "2.orc"]
    assert [[lease.segment for lease in lane] for lane in kept.lanes] == [[1], [0, 1]]
    assert kept.rows() == left.rows() == 10 + 40
    assert kept.without_done() == (kept, ())
