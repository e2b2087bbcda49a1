"""The streams of the ledger's lanes, read from real files: every row of every epoch once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from data.columns import Column
from data.read.footers import read_footers
from data.read.plan import check, plan
from data.read.read_spec import ReadSpec
from data.where import parse
from ps_cluster.train.batches import LookAhead
from ps_cluster.train.ledger import Consumed, Ledger, Segment
from ps_cluster.train.session import Samples
from ps_cluster.train.shares import Share
from ps_cluster.train.work import reads_of
from tests.data.orc_files import damage_stripe, numbered

EPOCHS = 2
STAGES = ((1, 3), (3, 2), (2, 4), (2, 0), (4, 1), (1, 10**9))  # workers, steps


def share_of(spec: ReadSpec, workers: int, worker: int) -> Share:
    """A worker's share, as all workers would agree on it."""
    samples = Samples(spec.paths, check(spec))
    specs = [replace(spec, num_shards=workers, shard=shard) for shard in range(workers)]
    plans = [plan(one, None, samples.checked) for one in specs]
    rows = tuple(one.rows for one in plans)
    return Share(samples, specs[worker], plans[worker], sum(rows), max(one.batches for one in plans), rows)


def train(spec: ReadSpec) -> tuple[Counter[tuple[int, int]], int, int]:
    """Ids by epoch as workers come and go, (rows lost, steps taken)."""
    trained: Counter[tuple[int, int]] = Counter()
    ledger: Ledger | None = None
    lost = steps_taken = 0
    for workers, steps in STAGES:
        shares = [share_of(spec, workers, worker) for worker in range(workers)]
        if ledger is None:
            segment = Segment((), EPOCHS, shares[0].plan.exact, (shares[0].shard_rows,))
            ledger = Ledger.empty(spec.batch_rows, spec.drop_remainder, workers).with_segment(segment)
        ledger = ledger.deal(workers).with_rows(0, shares[0].shard_rows)
        planned = ledger.steps
        consumed: list[Consumed] = []
        taken = 0
        for worker, share in enumerate(shares):
            with LookAhead(share.spec, reads_of(share, ledger, worker)) as batches:
                done = 0
                while batches.has_next and done < steps:
                    batch = batches.take()
                    trained.update((batch.epoch, one) for one in batch.columns["id"].numpy().tolist())
                    done += 1
                consumed.append(batches.consumed)
                lost += int(batches.counts[0])
                taken = max(taken, done)
        assert taken <= min(planned, steps)
        if shares[0].plan.exact:
            assert taken == min(planned, steps)
        ledger = ledger.advance(consumed)
        steps_taken += taken
    return trained, lost, steps_taken


@pytest.mark.parametrize(
    ("reader", "shuffle_rows", "where"),
    [("native", 16, None), ("native", 0, "score > 3"), ("native", 16, "score > 3"), ("tfio", 16, "score > 3")],
)
def test_workers_that_come_and_go_read_each_row_once_an_epoch(
    tmp_path: Path, reader: str, shuffle_rows: int, where: str | None
) -> None:
    paths = (numbered(tmp_path / "a.orc", [30, 11, 25]), numbered(tmp_path / "b.orc", [40, 3], start=66))
    spec = ReadSpec(
        paths,
        (Column("id", "int64"), Column("items", "int64_list")),
        batch_rows=4,
        epochs=EPOCHS,
        shuffle_rows=shuffle_rows,
        interleave_stripes=2,
        where=parse(where) if where else None,
        reader=reader,  # type: ignore[arg-type]
    )
    ids = [one for one in range(109) if where is None or one / 4 > 3]
    trained, lost, _ = train(spec)
    assert trained == Counter((epoch, one) for epoch in range(EPOCHS) for one in ids)
    assert lost == 0


@pytest.mark.parametrize("shuffle_rows", [0, 16])
def test_rows_of_a_damaged_stripe_are_left_out_and_no_others(tmp_path: Path, shuffle_rows: int) -> None:
    path = numbered(tmp_path / "a.orc", [30, 20, 30, 20])
    damage_stripe(path, 1)
    assert len(read_footers([path], ())[0].stripes) == 4
    spec = ReadSpec(
        (path,),
        (Column("id", "int64"),),
        batch_rows=4,
        epochs=EPOCHS,
        shuffle_rows=shuffle_rows,
        on_bad="skip",
        reader="native",
    )
    trained, _, _ = train(spec)
    ids = [*range(30), *range(50, 100)]
    assert trained == Counter((epoch, one) for epoch in range(EPOCHS) for one in ids)
