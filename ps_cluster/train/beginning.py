"""Where a training stands before the loop: at its first step, or where a checkpoint left it."""

from __future__ import annotations

from dataclasses import replace

from ps_cluster.metrics.window import WindowAuc
from ps_cluster.metrics.window_calibration import WindowCalibration
from ps_cluster.train.schedule import Course
from ps_cluster.train.session import Session
from ps_cluster.train.state import TrainingState
from ps_cluster.train.work import Work, reading_of


def begun(session: Session, work: Work) -> TrainingState:
    """Where a training stands before its first step."""
    return TrainingState(
        step=0,
        rows=0,
        rows_retrained=0,
        restarts=0,
        course=Course(planned_steps(session, work, 0)),
        max_steps=session.job.training.max_steps,
        reading=reading_of(session.job_file, work.share.samples),
        ledger=work.ledger,
        counts=(0,) * (1 + len(work.share.spec.columns)),
        losses=(),
        window=WindowAuc().counts,
        calibration=WindowCalibration().sums,
    )


def resumed(session: Session, work: Work, state: TrainingState) -> TrainingState:
    """`state`, from a checkpoint, as training goes on with `work`."""
    course, max_steps = state.course, session.job.training.max_steps
    if len(state.ledger.lanes) != session.num_workers or state.max_steps != max_steps:
        left = planned_steps(session, work, state.step) - state.step
        course = course.stretched(session.job.schedule, state.step, left)
    return replace(state, course=course, max_steps=max_steps, ledger=work.ledger)


def planned_steps(session: Session, work: Work, step: int) -> int:
    """Steps that training will have taken at its end, `step` of them before `work`; fewer when rows turn out to be
    lost."""
    if session.job.data.follow is not None:
        return session.job.training.max_steps or step  # a schedule does not ask: it has no end, or one in steps
    steps = step + work.ledger.steps
    limit = session.job.training.max_steps
    return steps if limit is None else max(min(steps, limit), step)
