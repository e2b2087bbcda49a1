"""The training loop of one worker: batch after batch until no worker has any left, or it is asked to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import tensorflow as tf
import tf_keras

from data.read.read_spec import Position
from ps_cluster.errors import RunError
from ps_cluster.job.resolve import label_column
from ps_cluster.train.batches import Batch, LookAhead
from ps_cluster.train.collective import gathered, total
from ps_cluster.train.drain import Drain
from ps_cluster.train.following import Following
from ps_cluster.train.labels import check_labels
from ps_cluster.train.last_step import LastStep, LastStepFile
from ps_cluster.train.ledger import Consumed, Ledger
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.progress import Progress, Trained
from ps_cluster.train.recovery import Recovery, StepTold, is_lost_peer
from ps_cluster.train.schedule import rate_factor
from ps_cluster.train.session import Session
from ps_cluster.train.speed import Speed
from ps_cluster.train.state import TrainingState
from ps_cluster.train.step import StepResult, make_train_step
from ps_cluster.train.step_time import Marks, StepClock
from ps_cluster.train.utilisation import Utilisation
from ps_cluster.train.watchdog import Watchdog
from ps_cluster.train.window import Window
from ps_cluster.train.work import Work
from ps_cluster.watch.trace import TraceRequests


@dataclass(frozen=True)
class Beside:
    """What goes on beside a loop's steps; each may be left out.

    last_step: is told each step. clock: measures this worker's steps; for whoever reads it meanwhile. traces: looks
    after requests for them. watchdog: is told what goes on. recovery: what is done when another process is lost; None:
    its error is raised. following: brings more samples while training goes on. between: called between any two steps,
    and again and again while samples are waited for.
    """

    saves: PeriodicSaves | None = None
    drain: Drain | None = None
    last_step: LastStepFile | None = None
    clock: StepClock = field(default_factory=StepClock)
    traces: TraceRequests | None = None
    watchdog: Watchdog | None = None
    recovery: Recovery | None = None
    following: Following | None = None
    between: Callable[[], None] = lambda: None

    @property
    def drain_asked(self) -> bool:
        return self.drain is not None and self.drain.asked

    def at(self, doing: str) -> None:
        """What the loop does now, for who waits for it in vain."""
        if self.watchdog is not None:
            self.watchdog.at(doing)


def train(
    session: Session,
    work: Work,
    start: TrainingState,
    optimizer: tf_keras.optimizers.Optimizer,
    report: Callable[[Progress], None],
    peak: float,
    beside: Beside | None = None,
) -> Trained:
    """Trains until every worker's data have ended, `max_steps` is reached, or a worker is asked to end; all workers
    stop at the same step.

    start: of `ps_cluster.train.beginning`. peak: operations per second that all workers' devices can do
    (`ps_cluster.train.peak`).
    """
    with LookAhead(work.share.spec, work.reads) as batches:
        loop = _Loop(
            session, work, start, optimizer, report, Utilisation(session.job, peak), beside or Beside(), batches
        )
        return loop.run()


class _Loop:
    def __init__(
        self,
        session: Session,
        work: Work,
        start: TrainingState,
        optimizer: tf_keras.optimizers.Optimizer,
        report: Callable[[Progress], None],
        utilisation: Utilisation,
        beside: Beside,
        batches: LookAhead,
    ):
        self._session, self._work, self._start, self._optimizer = session, work, start, optimizer
        self._report, self._utilisation, self._beside, self._batches = report, utilisation, beside, batches
        self._step, self._rows, self._retrained = start.step, start.rows, start.rows_retrained
        self._window = Window(session.model.sparsity)
        self._window.restore(start, first=session.rank == 0)
        if session.rank == 0:
            batches.counts += start.counts
        self._batch: Batch | None = None
        """Of the step in hand; it is still there where that was broken off, and is to be done again."""
        self._train_step = self._traced()
        self._speed = Speed()
        left = int(total(np.array([int(batches.has_next)], np.int64))[0])
        self._told = StepTold(self._step, workers_left=left, meeting=True)

    def run(self) -> Trained:
        most = self._session.job.training.max_steps
        while not self._told.drained and (most is None or self._step < most):
            again = self._batch is not None
            if not again:
                self._look_for_files()
            if not self._told.workers_left:
                break
            self._take_batch()
            try:
                self._do_step(again)
            except Exception as error:
                if self._beside.recovery is None or not is_lost_peer(error):
                    raise
                self._go_on(self._beside.recovery.after(error, self._told), again)
        return self._trained()

    def _traced(self) -> Callable[..., StepResult]:
        session = self._session
        return make_train_step(
            session.job, session.model, session.store, self._optimizer, session.devices, self._batches.element_spec
        )

    # --- Samples -----------------------------------------------------------------------------------------------------

    def _look_for_files(self) -> None:
        """Where a folder is followed: for new ones, once no worker has batches left or one wishes to know of them."""
        following = self._beside.following
        if following is None:
            return
        self._beside.at(f"meeting before step {self._step + 1}")
        if not self._told.workers_left:
            began = time.monotonic()
            left, drained = following.wait(self._batches, lambda: self._beside.drain_asked, self._while_waiting)
            self._told = replace(self._told, workers_left=left, drained=drained, meeting=False)
            self._speed.rested(time.monotonic() - began)
            self._beside.clock.rested()
        elif self._told.meeting:
            self._told = replace(self._told, workers_left=following.meet(self._batches), meeting=False)

    def _while_waiting(self) -> None:
        """Between two looks for samples; every worker calls it."""
        self._beside.at("waiting for files")
        saves = self._beside.saves
        if saves is not None:
            wanted = saves.wanted and saves.begun_step != self._step
            if total(np.array([wanted], np.int64))[0]:
                saves.begin(self._state())
            saves.tell_ended()
        self._beside.between()

    def _take_batch(self) -> None:
        self._beside.at(f"input of step {self._step + 1}")
        with self._beside.clock.counts("input"):
            self._batch = self._batch or self._batches.take()
        following, spec = self._beside.following, self._work.share.spec
        if following is not None:
            spec = replace(spec, paths=following.paths)
        check_labels(self._labels(self._batch), label_column(self._session.job.data.label), spec)

    def _labels(self, batch: Batch) -> np.ndarray:
        return np.asarray(batch.columns[self._session.job.data.label])

    # --- A step ------------------------------------------------------------------------------------------------------

    def _do_step(self, again: bool) -> None:
        batch = self._batch
        assert batch is not None
        beside, labels = self._beside, self._labels(batch)
        schedule, course = self._session.job.schedule, self._start.course
        factor = rate_factor(schedule, course.at(self._step + 1), course.total)
        result = self._run(batch, factor)
        self._batch = None
        self._done(self._told, again)
        beside.clock.step_done(self._step, batch.rows)
        if beside.following is not None:
            beside.following.scored(batch, result.logits.numpy(), labels)
        self._window.add(result, batch.columns, labels)
        self._utilisation.add(batch.columns, batch.rows)
        training = self._session.job.training
        if (
            self._step % training.log_every_steps == 0
            or not self._told.workers_left
            or self._step == training.max_steps
        ):
            self._tell(batch.epoch, factor, result)
        self._between_steps()

    def _run(self, batch: Batch, factor: float) -> StepResult:
        """Runs the step and hears what all workers know after it."""
        beside, step = self._beside, self._step + 1
        wishes = (
            beside.saves is not None and beside.saves.wanted,
            beside.drain_asked,
            beside.following is not None and beside.following.wants_to_meet(self._batches, batch),
        )
        beside.at(f"step {step}")
        sent = time.time()
        result = self._train_step(
            batch.columns,
            tf.constant(step, tf.int64),
            tf.constant(factor, tf.float32),
            tf.constant(self._batches.has_next),
            tf.constant(wishes, tf.float32),
        )
        beside.clock.ran(sent, Marks(*result.marks.numpy().tolist()), time.time())
        loss, rows, left = float(result.loss), int(result.rows), int(result.workers_left)
        self._told = StepTold(step, loss, rows, left, *(bool(wish) for wish in result.wishes.numpy()))
        if not math.isfinite(loss):
            raise RunError(f"step {step}: the loss is {loss}: training has diverged; lower the learning rates")
        return result

    def _done(self, now: StepTold, again: bool) -> None:
        """Counts a step that is done, and tells of it."""
        self._step, self._rows = now.step, self._rows + now.rows
        self._retrained += now.rows if again else 0
        self._window.step_done(now.loss, now.rows)
        self._speed.step_done(now.rows)
        if self._beside.last_step is not None:
            self._beside.last_step.write(LastStep(self._step, self._rows, self._retrained, self._start.restarts))

    def _tell(self, epoch: int, factor: float, result: StepResult) -> None:
        """Reports what the window has shown and begins the next one; every worker calls it."""
        window, clock, following = self._window, self._beside.clock, self._beside.following
        speed = self._speed.take_window()
        window_steps, step_time = clock.window_of_all()
        asynchronous = self._session.job.training.sparse_updates == "asynchronous"
        self._report(
            Progress(
                step=self._step,
                epoch=epoch,
                rows=self._rows,
                loss=window.loss,
                auc=window.auc(),
                samples_per_second=speed,
                rate_factor=factor,
                mfu=self._utilisation.at(speed),
                experts=window.experts,
                calibration=window.calibration(),
                gradient_norm=float(result.gradient_norm),
                sparse_bytes=int(result.sparse_bytes),
                window_steps=window_steps,
                step_time=step_time,
                read=self._batches.counts_here(),
                newest_event=following.newest_event_of_all() if following is not None else None,
                staleness=clock.staleness_of_all() if asynchronous else None,
            )
        )
        window.reset()

    def _between_steps(self) -> None:
        beside = self._beside
        if beside.saves is not None:
            with beside.clock.counts("checkpoint"):
                if not self._told.drained and beside.saves.due(self._step, self._told.save_wished):
                    beside.saves.begin(self._state())
                beside.saves.tell_ended()
        beside.between()
        if beside.traces is not None:
            beside.traces.between_steps(self._step)

    def _go_on(self, furthest: StepTold, again: bool) -> None:
        """After a lost process was replaced: from where the worker is that has come furthest."""
        if furthest.step > self._step:  # others have finished the step that was broken off here
            self._batch = None
            self._done(furthest, again)
        self._told = furthest
        self._train_step = self._traced()

    # --- Where training stands ---------------------------------------------------------------------------------------

    def _state(self) -> TrainingState:
        """Every worker calls it."""
        following = self._beside.following
        return replace(
            self._start,
            step=self._step,
            rows=self._rows,
            rows_retrained=self._retrained,
            ledger=following.left(self._batches) if following is not None else self._left(),
            counts=tuple(total(self._batches.counts).tolist()),
            followed=following.followed if following is not None else None,
            newest_event=following.newest_event_of_all() if following is not None else None,
            **self._window.state(),
        )

    def _left(self) -> Ledger:
        """What is left of the data; every worker calls it."""
        consumed = self._batches.consumed
        mine = np.array([consumed.leases, *consumed.position], np.int64)
        return self._start.ledger.advance(
            [Consumed(leases, Position(epoch, row)) for leases, epoch, row in gathered(mine).reshape(-1, 3).tolist()]
        )

    def _trained(self) -> Trained:
        seconds = self._speed.seconds
        speed, state = self._speed.over(seconds), self._state()
        return Trained(
            state,
            self._told.drained,
            seconds,
            speed,
            self._utilisation.at(speed),
            self._utilisation.flops_per_row,
            self._optimizer,
            self._batches.named(np.array(state.counts, np.int64)),
        )
