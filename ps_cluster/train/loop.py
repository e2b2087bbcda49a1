"""The training loop of one worker: batch after batch until no worker has any left, or it is asked to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf
import tf_keras

from data.read.read_spec import Position
from data.sample.sampling import OFFSET
from ps_cluster.errors import RunError
from ps_cluster.job.resolve import label_column
from ps_cluster.metrics.window import WindowAuc, window_auc
from ps_cluster.metrics.window_calibration import WindowCalibration, window_calibration
from ps_cluster.train.batches import Batch, LookAhead, ReadCounts
from ps_cluster.train.collective import gathered, total
from ps_cluster.train.drain import Drain
from ps_cluster.train.expert_shares import ExpertShares, ExpertWindow
from ps_cluster.train.following import Following
from ps_cluster.train.labels import check_labels
from ps_cluster.train.last_step import LastStep, LastStepFile
from ps_cluster.train.ledger import Consumed, Ledger
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.recovery import Recovery, StepTold, is_lost_peer
from ps_cluster.train.schedule import Course, rate_factor
from ps_cluster.train.session import Session
from ps_cluster.train.state import TrainingState
from ps_cluster.train.step import StepResult, make_train_step
from ps_cluster.train.step_time import Marks, StepClock, StepTime
from ps_cluster.train.utilisation import Utilisation
from ps_cluster.train.watchdog import Watchdog
from ps_cluster.train.work import Work, reading_of
from ps_cluster.watch.trace import TraceRequests


@dataclass(frozen=True)
class Progress:
    """Figures since the last report, over all workers.

    calibration: mean prediction / mean label. gradient_norm: of the dense weights, in this step. sparse_bytes: that a
    worker and the PS exchanged in this step, as worker 0 saw it. window_steps: steps that `step_time` is of, by worker.
    read: what was wrong with the rows that this worker has read, since training began. staleness: how many steps a
    gradient of embeddings was late, in this step; None with synchronous updates, where none is.
    """

    step: int
    epoch: int
    rows: int
    loss: float
    auc: float | None
    samples_per_second: float
    rate_factor: float
    mfu: float
    experts: ExpertShares | None
    calibration: float | None
    gradient_norm: float
    sparse_bytes: int
    window_steps: int
    step_time: list[StepTime]
    read: ReadCounts
    staleness: float | None
    newest_event: float | None = None
    """As of `TrainingState`."""


@dataclass(frozen=True)
class Trained:
    """What a loop has done; seconds without the first step, in which TensorFlow traces the graph.

    state: where training stands. drained: it was asked to end before its time.
    """

    state: TrainingState
    drained: bool
    seconds: float
    samples_per_second: float
    mfu: float
    flops_per_row: float
    optimizer: tf_keras.optimizers.Optimizer
    counts: ReadCounts


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


def train(
    session: Session,
    work: Work,
    start: TrainingState,
    optimizer: tf_keras.optimizers.Optimizer,
    report: Callable[[Progress], None],
    peak: float,
    saves: PeriodicSaves | None = None,
    drain: Drain | None = None,
    last_step: LastStepFile | None = None,
    clock: StepClock | None = None,
    traces: TraceRequests | None = None,
    watchdog: Watchdog | None = None,
    recovery: Recovery | None = None,
    following: Following | None = None,
    between: Callable[[], None] = lambda: None,
) -> Trained:
    """Trains until every worker's data have ended, `max_steps` is reached, or a worker is asked to end; all workers
    stop at the same step.

    start: of `begun` or `resumed`. peak: operations per second that all workers' devices can do
    (`ps_cluster.train.peak`). last_step: is told each step. clock: measures this worker's steps; for whoever reads it
    meanwhile. traces: looks after requests for them. watchdog: is told what goes on. recovery: what is
    done when another process is lost; None: its error is raised. following: brings more samples while training goes
    on. between: called between any two steps, and again and again while samples are waited for.
    """
    training = session.job.training
    clock = clock or StepClock()
    window, calibration = WindowAuc(), WindowCalibration()
    utilisation = Utilisation(session.job, peak)
    experts = ExpertWindow(session.model.sparsity) if session.model.sparsity is not None else None
    if session.rank == 0:
        window.counts += start.window
        calibration.sums += start.calibration
    if experts is not None and start.experts is not None:
        experts.restore(start.experts, start.experts_rows)
    losses = list(start.losses)
    step, rows, retrained = start.step, start.rows, start.rows_retrained
    window_rows = counted_rows = 0
    broken_off: Batch | None = None  # of a step that is to be done again
    started = window_started = time.monotonic()
    with LookAhead(work.share.spec, work.reads) as batches:
        if session.rank == 0:
            batches.counts += start.counts

        def state() -> TrainingState:
            """Where training stands; every worker calls it."""
            of_window, of_experts = total(window.counts), experts.sums if experts is not None else (None, 0)
            return replace(
                start,
                step=step,
                rows=rows,
                rows_retrained=retrained,
                ledger=_left(start.ledger, batches.consumed) if following is None else following.left(batches),
                counts=tuple(total(batches.counts).tolist()),
                losses=tuple(losses),
                window=of_window.copy(),
                calibration=total(calibration.sums).copy(),
                experts=of_experts[0],
                experts_rows=of_experts[1],
                followed=following.followed if following is not None else None,
                newest_event=following.newest_event_of_all() if following is not None else None,
            )

        def while_waiting() -> None:
            """Between two looks for samples; every worker calls it."""
            if watchdog is not None:
                watchdog.at("waiting for files")
            if saves is not None:
                wanted = saves.wanted and saves.begun_step != step
                if total(np.array([wanted], np.int64))[0]:
                    saves.begin(state())
                saves.tell_ended()
            between()

        def traced() -> Callable[..., StepResult]:
            return make_train_step(
                session.job, session.model, session.store, optimizer, session.devices, batches.element_spec
            )

        def done(now: StepTold, again: bool) -> None:
            """Counts a step that is done, and tells of it."""
            nonlocal step, rows, retrained, window_rows, counted_rows, started, window_started
            step, rows, window_rows = now.step, rows + now.rows, window_rows + now.rows
            retrained += now.rows if again else 0
            losses.append((now.loss, now.rows))
            if step == start.step + 1:
                started = window_started = time.monotonic()
                window_rows = 0
            else:
                counted_rows += now.rows
            if last_step is not None:
                last_step.write(LastStep(step, rows, retrained, start.restarts))

        train_step = traced()
        started = window_started = time.monotonic()
        left = int(total(np.array([int(batches.has_next)], np.int64))[0])
        told = StepTold(step, workers_left=left, meeting=True)
        while not told.drained and step < (training.max_steps or step + 1):
            if following is not None and broken_off is None:
                if watchdog is not None:
                    watchdog.at(f"meeting before step {step + 1}")
                if not told.workers_left:
                    waiting = time.monotonic()
                    left, drained = following.wait(batches, lambda: drain is not None and drain.asked, while_waiting)
                    told = replace(told, workers_left=left, drained=drained, meeting=False)
                    waited = time.monotonic() - waiting
                    started, window_started = started + waited, window_started + waited
                    clock.rested()
                elif told.meeting:
                    told = replace(told, workers_left=following.meet(batches), meeting=False)
            if not told.workers_left:
                break
            again = broken_off is not None
            if watchdog is not None:
                watchdog.at(f"input of step {step + 1}")
            with clock.counts("input"):
                batch = broken_off = broken_off or batches.take()
            labels = np.asarray(batch.columns[session.job.data.label])
            spec = work.share.spec if following is None else replace(work.share.spec, paths=following.paths)
            check_labels(labels, label_column(session.job.data.label), spec)
            factor = rate_factor(session.job.schedule, start.course.at(step + 1), start.course.total)
            wishes = (
                saves is not None and saves.wanted,
                drain is not None and drain.asked,
                following is not None and following.wants_to_meet(batches, batch),
            )
            if watchdog is not None:
                watchdog.at(f"step {step + 1}")
            sent = time.time()
            try:
                result = train_step(
                    batch.columns,
                    tf.constant(step + 1, tf.int64),
                    tf.constant(factor, tf.float32),
                    tf.constant(batches.has_next),
                    tf.constant(wishes, tf.float32),
                )
                clock.ran(sent, Marks(*result.marks.numpy().tolist()), time.time())
                loss, step_rows, left = float(result.loss), int(result.rows), int(result.workers_left)
                told = StepTold(step + 1, loss, step_rows, left, *(bool(wish) for wish in result.wishes.numpy()))
                if not math.isfinite(told.loss):
                    raise RunError(
                        f"step {told.step}: the loss is {told.loss}: training has diverged; lower the learning rates"
                    )
                broken_off = None
                done(told, again)
                clock.step_done(step, batch.rows)
                if following is not None:
                    following.scored(batch, result.logits.numpy(), labels)
                window.add(result.logits.numpy(), labels)
                calibration.add(result.logits.numpy(), labels, batch.columns.get(OFFSET))
                utilisation.add(batch.columns, batch.rows)
                if experts is not None and result.active is not None:
                    experts.add(result.active.numpy(), told.rows)
                if step % training.log_every_steps == 0 or not told.workers_left or step == training.max_steps:
                    now = time.monotonic()
                    counts = total(window.counts)
                    window_speed = window_rows / max(now - window_started, 1e-9)
                    window_steps, step_time = clock.window_of_all()
                    report(
                        Progress(
                            step=step,
                            epoch=batch.epoch,
                            rows=rows,
                            loss=sum(loss * n for loss, n in losses) / max(sum(n for _, n in losses), 1),
                            auc=window_auc(counts),
                            samples_per_second=window_speed,
                            rate_factor=factor,
                            mfu=utilisation.at(window_speed),
                            experts=experts.shares() if experts is not None else None,
                            calibration=window_calibration(total(calibration.sums)),
                            gradient_norm=float(result.gradient_norm),
                            sparse_bytes=int(result.sparse_bytes),
                            window_steps=window_steps,
                            step_time=step_time,
                            read=batches.counts_here(),
                            newest_event=following.newest_event_of_all() if following is not None else None,
                            staleness=clock.staleness_of_all() if training.sparse_updates == "asynchronous" else None,
                        )
                    )
                    window.reset()
                    calibration.reset()
                    if experts is not None:
                        experts.reset()
                    losses.clear()
                    window_rows, window_started = 0, now
                if saves is not None:
                    with clock.counts("checkpoint"):
                        if not told.drained and saves.due(step, told.save_wished):
                            saves.begin(state())
                        saves.tell_ended()
                between()
                if traces is not None:
                    traces.between_steps(step)
            except Exception as error:
                if recovery is None or not is_lost_peer(error):
                    raise
                furthest = recovery.after(error, told)
                if furthest.step > step:  # others have finished the step that was broken off here
                    broken_off = None
                    done(furthest, again)
                told = furthest
                train_step = traced()
        seconds = time.monotonic() - started
        speed = counted_rows / max(seconds, 1e-9)
        ended = state()
        return Trained(
            ended,
            told.drained,
            seconds,
            speed,
            utilisation.at(speed),
            utilisation.flops_per_row,
            optimizer,
            batches.named(np.array(ended.counts, np.int64)),
        )


def _left(ledger: Ledger, consumed: Consumed) -> Ledger:
    """What is left when this worker has consumed so much; every worker calls it."""
    mine = np.array([consumed.leases, *consumed.position], np.int64)
    return ledger.advance(
        [Consumed(leases, Position(epoch, row)) for leases, epoch, row in gathered(mine).reshape(-1, 3).tolist()]
    )
