"""What a worker trains: the leases of its lane in the ledger, as streams to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from data.orc import Plan, ReadSpec, make_plan
from data.read.plan import stream_batches
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile
from ps_cluster.train.batches import Read
from ps_cluster.train.ledger import Lease, Ledger, Segment, TrainingFile
from ps_cluster.train.session import Samples, Session
from ps_cluster.train.shares import Share

_SHOWN_FILES = 5


@dataclass(frozen=True)
class Work:
    """What is left of a training: the ledger, as it is dealt to the workers, and this worker's streams."""

    share: Share
    ledger: Ledger
    reads: tuple[Read, ...]


def first_work(session: Session, share: Share) -> Work:
    """All rows of all epochs."""
    spec = share.spec
    segment = Segment(_files(share.samples), spec.epochs, share.plan.exact, (share.shard_rows,))
    ledger = Ledger.empty(spec.batch_rows, spec.drop_remainder, session.num_workers).with_segment(segment)
    return Work(share, ledger, reads_of(share, ledger, session.rank))


def resumed_work(session: Session, share: Share, ledger: Ledger) -> Work:
    """What `ledger`, from a checkpoint, has left, for as many workers as there are now.

    Raises:
      UserError: the files are not those that the ledger tells of.
    """
    (segment,) = ledger.segments
    _check_same_files(session.job_file, segment.files, _files(share.samples))
    dealt = ledger.deal(session.num_workers).with_rows(0, share.shard_rows)
    return Work(share, dealt, reads_of(share, dealt, session.rank))


def reads_of(share: Share, ledger: Ledger, worker: int) -> tuple[Read, ...]:
    """The streams of a worker's lane; `share` is that worker's."""
    plans: dict[tuple[int, int], Plan] = {(share.spec.num_shards, share.spec.shard): share.plan}
    return tuple(read_of(share, lease, plans) for lease in ledger.lanes[worker])


def reading_of(job_file: JobFile, samples: Samples) -> dict[str, Any]:
    """What of a job gives a position in its samples its meaning, as plain JSON values by the fields' names."""
    job = job_file.job
    return {
        "training.batch_size": job.training.batch_size,
        "training.epochs": job.training.epochs,
        "training.seed": job.training.seed,
        "data.label": job.data.label,
        "data.where": job.data.where,
        "data.shuffle_rows": job.data.shuffle_rows,
        "data.interleave_stripes": job.data.interleave_stripes,
        "data.stripe_slices": job.data.stripe_slices,
        "data.drop_remainder": job.data.drop_remainder,
        "data.on_bad": job.data.on_bad,
        "data.sampling": samples.sampling.record() if samples.sampling else None,
    }


def check_same_reading(path: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Returns when a job's samples are read as those of a checkpoint were; both of `reading_of`.

    Raises:
      UserError: they are not; one line for each field of the job file at `path` that differs.
    """
    lines = [
        f"{path}: {field}: expected {before.get(field)!r} as in the training to be resumed, found {now.get(field)!r}"
        for field in dict.fromkeys([*before, *now])
        if before.get(field) != now.get(field)
    ]
    if lines:
        raise UserError("\n".join(lines))


def read_of(share: Share, lease: Lease, plans: dict[tuple[int, int], Plan]) -> Read:
    """The stream of a lease of the share's files; `plans`, by shards and shard, takes in what is planned for it."""
    spec = replace(share.spec, num_shards=lease.num_shards, shard=lease.shard)
    place = (lease.num_shards, lease.shard)
    if place not in plans:  # with a filter the rows of that shard are counted
        plans[place] = make_plan(spec, None, share.samples.checked)
    spec = _from(spec, lease)
    plan = replace(plans[place], batches=stream_batches(plans[place].rows, spec))
    return Read(spec, plan, lease.end if lease.end.row else None)


def _from(spec: ReadSpec, lease: Lease) -> ReadSpec:
    return replace(spec, start=lease.start, epochs=lease.epochs)


def _files(samples: Samples) -> tuple[TrainingFile, ...]:
    return tuple(
        TrainingFile(footer.path, footer.file_key, sum(stripe.rows for stripe in footer.stripes))
        for footer in samples.checked.footers
    )


def _check_same_files(job_file: JobFile, before: tuple[TrainingFile, ...], now: tuple[TrainingFile, ...]) -> None:
    """The same contents in the same order; where they lie does not matter."""
    if [(file.key, file.rows) for file in before] == [(file.key, file.rows) for file in now]:
        return
    known, found = {file.key for file in before}, {file.key for file in now}
    lines = [f"{file.path}: of the training to be resumed, found no more" for file in before if file.key not in found]
    lines += [f"{file.path}: not in the training to be resumed" for file in now if file.key not in known]
    shown = lines[:_SHOWN_FILES] or ["they are in another order"]
    more = [f"and {len(lines) - len(shown)} more"] if len(lines) > len(shown) else []
    raise UserError(
        f"{job_file.path}: data.train: expected the {len(before)} files of the training to be resumed, found others: "
        + "; ".join([*shown, *more])
    )
