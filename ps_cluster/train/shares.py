"""Which rows each worker reads, agreed on by all before any step: how many steps a run will have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from data.errors import DataError
from data.orc import Plan, ReadSpec, make_plan
from ps_cluster.errors import RunError
from ps_cluster.train.collective import gathered
from ps_cluster.train.session import Samples, Session

_PROGRESS_SECONDS = 0.5


@dataclass(frozen=True)
class Share:
    """This worker's part of the samples, and what all parts come to."""

    samples: Samples
    spec: ReadSpec
    plan: Plan
    rows: int
    """Rows of an epoch, over all workers."""
    batches: int
    """Of the worker with the most: steps until every worker's data have ended."""
    shard_rows: tuple[int, ...]
    """Rows of an epoch of each worker."""


def share_of(session: Session, samples: Samples, *, training: bool, progress: Callable[[int, int], None]) -> Share:
    """Plans this worker's reading; every worker calls it.

    Args:
      progress: told (rows done, rows in total) of all workers, about, while rows are counted for `where` or sampling.

    Raises:
      DataError: a stripe cannot be read; `where` leaves no row; no batch is full (`drop_remainder`).
      RunError: the workers see different files.
    """
    spec = session.read_spec(samples, training=training)
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _PROGRESS_SECONDS or done == total:
            told = time.monotonic()
            progress(done * session.num_workers, total * session.num_workers)

    plan = make_plan(spec, tell, samples.checked)
    summary = plan.files
    mine = [plan.rows, plan.batches, summary.files, summary.rows, summary.stripes, len(plan.lost)]
    shares = gathered(np.array(mine, np.int64)).reshape(-1, len(mine))
    _check_same_files(shares[:, 2:])
    rows, batches = int(shares[:, 0].sum()), int(shares[:, 1].max())
    if not batches:
        side = "training" if training else "test"
        if rows:
            found = f"{rows} rows for {session.num_workers} workers" if session.num_workers > 1 else f"{rows} rows"
            raise DataError(f"data.drop_remainder: expected a full batch of {side} rows, found {found}")
        field = "data.where: expected a condition" if spec.where else "data.sampling: expected rates"
        raise DataError(f"{field} to keep {side} rows, found none of {summary.rows} kept")
    return Share(samples, spec, plan, rows, batches, tuple(shares[:, 0].tolist()))


def _check_same_files(found: np.ndarray) -> None:
    """`found`: files, rows, stripes and files left out, by worker."""
    for worker, one in enumerate(found):
        if (one != found[0]).any():
            words = [f"{rows} rows in {files} files ({lost} left out)" for files, rows, _, lost in (found[0], one)]
            raise RunError(
                f"samples: expected the same files on every worker, found {words[0]} on worker 0 and "
                f"{words[1]} on worker {worker}"
            )
