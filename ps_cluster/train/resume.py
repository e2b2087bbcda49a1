"""A training that goes on: the newest whole checkpoint into the tables, weights and optimiser of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import tf_keras

from ps_cluster.checkpoint.dense import load_dense
from ps_cluster.checkpoint.finding import checkpoint_at, newest_or_none
from ps_cluster.train.collective import text_from_first
from ps_cluster.train.last_step import LastStep
from ps_cluster.train.session import Samples, Session
from ps_cluster.train.state import TrainingState, state_in
from ps_cluster.train.trained_job import check_as_trained
from ps_cluster.train.work import check_same_reading, reading_of


def restored(
    session: Session,
    optimizer: tf_keras.optimizers.Optimizer,
    samples: Samples,
    damaged: Callable[[list[str]], None] = lambda lines: None,
) -> tuple[TrainingState | None, str | None]:
    """Puts the newest whole checkpoint into the session; every worker calls it. Only worker 0 has the weights then.

    The tables must be empty, and the optimiser built.

    damaged: on worker 0, takes what is wrong with newer checkpoints, in lines; not called where nothing is.

    Returns:
      Where training stands, and the checkpoint's folder; None where no checkpoint was ever finished.

    Raises:
      UserError: there are checkpoints but none is whole, or the job means something else than the one that was trained.
    """
    job_file = session.job_file
    wrong: list[str] = []
    found = newest_or_none(job_file.checkpoints, session.devices.ps, wrong.append) if session.rank == 0 else None
    if wrong:
        damaged(wrong)
    folder = text_from_first(found.folder if found is not None else None)
    if not folder:
        return None, None
    checkpoint = found or checkpoint_at(folder, ())
    check_as_trained(job_file, checkpoint.manifest.trained)
    state = state_in(checkpoint)
    check_same_reading(job_file.path, state.reading, reading_of(job_file, samples))
    if session.rank == 0:
        load_dense(checkpoint, session.model, optimizer)
        session.store.restore(checkpoint.levels_of(session.store.table_names()))
    return state, folder


def with_lost_steps(state: TrainingState, last: LastStep | None) -> tuple[TrainingState, bool]:
    """`state` with what will be trained again, and whether training had begun before.

    last: what was finished last before training went back to `state`; None when that is not known.
    """
    if last is None:
        return replace(state, restarts=state.restarts + 1 if state.step else 0), False
    again = max(last.rows - state.rows, 0)
    return (
        replace(
            state,
            rows_retrained=max(last.rows_retrained, state.rows_retrained) + again,
            restarts=max(last.restarts, state.restarts) + 1,
        ),
        True,
    )
