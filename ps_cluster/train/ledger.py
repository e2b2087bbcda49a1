"""What of the samples each worker still has to train: a pure data structure, a part of every checkpoint.

The rows of a shard come in one order, that of `data.read`: so what is left of them is told by positions in that stream.
A *lease* is a run of it that one worker trains, a worker's *lane* its leases in order. Workers take their steps
together, so nobody has to ask for work: who has none left takes empty batches.

Where the number of workers changes, `deal` gives what is left to the new ones. Of three lanes of one pass each

    lane 0  ▓▓▓▓░░░░|........     ▓ trained   ░ left of this pass   . passes that nobody has begun
    lane 1  ▓▓▓▓░░░░|........
    lane 2  ▓▓▓▓░░░|.........

what is left of the pass is cut between batches of the old streams, and the passes behind it are read anew by as many
shards as there are workers now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from data.read.read_spec import Position


@dataclass(frozen=True)
class TrainingFile:
    """A file of samples; `key` is `data.read.footers.Footer.file_key`, by which it is known wherever it lies."""

    path: str
    key: int
    rows: int


@dataclass(frozen=True)
class Segment:
    """Files that are read together.

    epochs: passes over them. exact: whether `shard_rows` are; else (`on_bad: skip`) they are the most there can be.
    shard_rows: for each number of shards that leases have been dealt for, the rows that an epoch of each shard gives.
    """

    files: tuple[TrainingFile, ...]
    epochs: int
    exact: bool
    shard_rows: tuple[tuple[int, ...], ...]

    def rows_of(self, num_shards: int, shard: int) -> int:
        """Rows of an epoch of a shard."""
        return next(rows for rows in self.shard_rows if len(rows) == num_shards)[shard]


@dataclass(frozen=True)
class Lease:
    """The rows of a shard from `start` up to `end`, which is `(epoch, 0)` where all rows of the epochs before it are
    meant."""

    segment: int
    num_shards: int
    shard: int
    start: Position
    end: Position

    @property
    def epochs(self) -> int:
        """`ReadSpec.epochs` of the stream that holds it."""
        return self.end.epoch + (1 if self.end.row else 0)


@dataclass(frozen=True)
class Consumed:
    """How far a worker has come in its lane: `leases` are done, and of the one behind them all before `position`."""

    leases: int
    position: Position


@dataclass(frozen=True)
class Ledger:
    """What is left of a training.

    batch_rows, drop_remainder: as in `ReadSpec`. lanes: of each worker.
    """

    batch_rows: int
    drop_remainder: bool
    segments: tuple[Segment, ...]
    lanes: tuple[tuple[Lease, ...], ...]

    @staticmethod
    def empty(batch_rows: int, drop_remainder: bool, num_workers: int) -> Ledger:
        """Of a training that has no samples yet."""
        return Ledger(batch_rows, drop_remainder, (), ((),) * num_workers)

    def with_segment(self, segment: Segment) -> Ledger:
        """All of a segment's rows behind what is left of the others. Its `shard_rows` are of as many shards as there
        are workers."""
        number, workers = len(self.segments), len(self.lanes)
        lanes = [
            (*lane, Lease(number, workers, worker, Position(), Position(segment.epochs, 0)))
            for worker, lane in enumerate(self.lanes)
        ]
        return replace(self, segments=(*self.segments, segment), lanes=tuple(lanes))

    def with_rows(self, number: int, shard_rows: Sequence[int]) -> Ledger:
        """Knows the rows of a segment's shards, too."""
        segment = self.segments[number]
        if any(len(rows) == len(shard_rows) for rows in segment.shard_rows):
            return self
        known = replace(segment, shard_rows=(*segment.shard_rows, tuple(shard_rows)))
        return replace(self, segments=(*self.segments[:number], known, *self.segments[number + 1 :]))

    def advance(self, consumed: Sequence[Consumed]) -> Ledger:
        """What is left when each worker has come so far."""
        lanes = []
        for lane, done in zip(self.lanes, consumed, strict=True):
            left = lane[done.leases :]
            if left:
                left = (replace(left[0], start=done.position), *left[1:])
            lanes.append(left)
        return replace(self, lanes=tuple(lanes))

    def without_done(self) -> tuple[Ledger, tuple[Segment, ...]]:
        """The same without the segments of which no lease is left, and these."""
        open_numbers = sorted({lease.segment for lane in self.lanes for lease in lane})
        number_of = {number: place for place, number in enumerate(open_numbers)}
        done = tuple(one for number, one in enumerate(self.segments) if number not in number_of)
        lanes = tuple(tuple(replace(one, segment=number_of[one.segment]) for one in lane) for lane in self.lanes)
        segments = tuple(self.segments[number] for number in open_numbers)
        return replace(self, segments=segments, lanes=lanes), done

    def deal(self, num_workers: int) -> Ledger:
        """The same rows for so many workers; each goes on in its own lane when they are as many as before.

        Else lanes differ by one batch as far as that can be: where rows are not `exact`, runs of the old streams are
        not cut. Of leases that are read anew, `with_rows` must tell the rows before `batches` can.
        """
        if num_workers == len(self.lanes):
            return self
        lanes: list[list[Lease]] = [[] for _ in range(num_workers)]
        load = [0] * num_workers
        for number in range(len(self.segments)):
            for epoch, runs in self._left(number).items():
                if self._is_whole(number, runs):
                    for worker, lane in enumerate(lanes):
                        _append(lane, Lease(number, num_workers, worker, Position(epoch, 0), Position(epoch + 1, 0)))
                elif self.segments[number].exact:
                    self._deal_cut(runs, lanes, load)
                else:
                    self._deal_uncut(runs, lanes, load)
        return replace(self, lanes=tuple(tuple(lane) for lane in lanes))

    def batches(self, worker: int) -> int:
        """Batches that a worker has left; the most there can be where rows are not `exact`."""
        return sum(self._batches(rows) for lease in self.lanes[worker] for _, rows in self._epochs_of(lease))

    @property
    def steps(self) -> int:
        """Steps that are left: batches of the worker with the most."""
        return max(self.batches(worker) for worker in range(len(self.lanes)))

    def rows(self) -> int:
        """Rows that are left, those of dropped remainders included."""
        return sum(rows for lane in self.lanes for lease in lane for _, rows in self._epochs_of(lease))

    def to_json(self) -> dict[str, Any]:
        """Plain values for `from_json`."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Ledger:
        """The inverse of `to_json`; KeyError or TypeError for anything else."""
        return Ledger(
            content["batch_rows"],
            content["drop_remainder"],
            tuple(
                Segment(
                    tuple(TrainingFile(**file) for file in one["files"]),
                    one["epochs"],
                    one["exact"],
                    tuple(tuple(rows) for rows in one["shard_rows"]),
                )
                for one in content["segments"]
            ),
            tuple(
                tuple(
                    Lease(
                        one["segment"],
                        one["num_shards"],
                        one["shard"],
                        Position(*one["start"]),
                        Position(*one["end"]),
                    )
                    for one in lane
                )
                for lane in content["lanes"]
            ),
        )

    def _batches(self, rows: int) -> int:
        return rows // self.batch_rows if self.drop_remainder else -(-rows // self.batch_rows)

    def _epochs_of(self, lease: Lease) -> Iterator[tuple[Lease, int]]:
        """The lease's parts of each epoch that have rows, with how many."""
        whole = self.segments[lease.segment].rows_of(lease.num_shards, lease.shard)
        for epoch in range(lease.start.epoch, lease.epochs):
            first = lease.start.row if epoch == lease.start.epoch else 0
            end = lease.end if epoch == lease.end.epoch else Position(epoch + 1, 0)
            last = end.row or whole
            if last > first:
                yield replace(lease, start=Position(epoch, first), end=end), last - first

    def _left(self, number: int) -> dict[int, list[tuple[Lease, int]]]:
        """What is left of a segment, by epoch, in the order of the shards."""
        left: dict[int, list[tuple[Lease, int]]] = {}
        for lane in self.lanes:
            for lease in lane:
                if lease.segment == number:
                    for run, rows in self._epochs_of(lease):
                        left.setdefault(run.start.epoch, []).append((run, rows))
        return dict(sorted(left.items()))

    def _is_whole(self, number: int, runs: Sequence[tuple[Lease, int]]) -> bool:
        """Whether the runs of an epoch are all its rows, and no part of a pass."""
        shards = runs[0][0].num_shards
        if any(run.num_shards != shards or run.start.row or run.end.row for run, _ in runs):
            return False
        whole = next(rows for rows in self.segments[number].shard_rows if len(rows) == shards)
        return sum(rows for _, rows in runs) == sum(whole)

    def _deal_cut(self, runs: Sequence[tuple[Lease, int]], lanes: list[list[Lease]], load: list[int]) -> None:
        """Deals runs, cut between batches, so that the loads become as equal as they can."""
        total = sum(self._batches(rows) for _, rows in runs)
        quotas = [total // len(lanes)] * len(lanes)
        for worker in sorted(range(len(lanes)), key=lambda one: (load[one], one))[: total % len(lanes)]:
            quotas[worker] += 1
        worker, open_quota = 0, quotas[0]
        for run, rows in runs:
            left = self._batches(rows)
            first = run.start
            while left:
                while not open_quota:
                    worker += 1
                    open_quota = quotas[worker]
                taken = min(left, open_quota)
                end = Position(first.epoch, first.row + taken * self.batch_rows) if taken < left else run.end
                _append(lanes[worker], replace(run, start=first, end=end))
                load[worker] += taken
                first, left, open_quota = end, left - taken, open_quota - taken

    def _deal_uncut(self, runs: Sequence[tuple[Lease, int]], lanes: list[list[Lease]], load: list[int]) -> None:
        """Deals whole runs: the place of a cut may lie behind the last row that can be read."""
        for run, rows in sorted(runs, key=lambda one: -one[1]):
            worker = min(range(len(lanes)), key=lambda one: (load[one], one))
            _append(lanes[worker], run)
            load[worker] += self._batches(rows)


def _append(lane: list[Lease], lease: Lease) -> None:
    if lane:
        last = lane[-1]
        same = (last.segment, last.num_shards, last.shard) == (lease.segment, lease.num_shards, lease.shard)
        if same and last.end == lease.start:
            lane[-1] = replace(last, end=lease.end)
            return
    lane.append(lease)
