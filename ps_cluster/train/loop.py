"""The training loop of one worker: batch after batch until no worker has any left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tf_keras

from data.orc import open_reader
from data.sample.sampling import OFFSET
from ps_cluster.errors import RunError
from ps_cluster.job.resolve import label_column
from ps_cluster.metrics.window import WindowAuc, window_auc
from ps_cluster.metrics.window_calibration import WindowCalibration, window_calibration
from ps_cluster.train.batches import LookAhead, ReadCounts
from ps_cluster.train.collective import total
from ps_cluster.train.expert_shares import ExpertShares, ExpertWindow
from ps_cluster.train.labels import check_labels
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.schedule import rate_factor
from ps_cluster.train.session import Session
from ps_cluster.train.shares import Share
from ps_cluster.train.step import make_train_step
from ps_cluster.train.step_time import Marks, StepClock, StepTime
from ps_cluster.train.utilisation import Utilisation


@dataclass(frozen=True)
class Progress:
    """Figures since the last report, over all workers.

    calibration: mean prediction / mean label. gradient_norm: of the dense weights, in this step. sparse_bytes: that a
    worker and the PS exchanged in this step, as worker 0 saw it. window_steps: steps that `step_time` is of, by worker.
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


@dataclass(frozen=True)
class Trained:
    """What a finished loop has done; seconds without the first step, in which TensorFlow traces the graph."""

    steps: int
    rows: int
    seconds: float
    samples_per_second: float
    mfu: float
    flops_per_row: float
    optimizer: tf_keras.optimizers.Optimizer
    counts: ReadCounts


def planned_steps(session: Session, share: Share) -> int:
    """Steps that training will take; fewer when rows turn out to be lost."""
    return min(share.batches, session.job.training.max_steps or share.batches)


def train(
    session: Session,
    share: Share,
    optimizer: tf_keras.optimizers.Optimizer,
    report: Callable[[Progress], None],
    peak: float,
    saves: PeriodicSaves | None = None,
    clock: StepClock | None = None,
) -> Trained:
    """Trains until every worker's data has ended or `max_steps` is reached; all workers stop at the same step.

    peak: operations per second that all workers' devices can do (`ps_cluster.train.peak`). clock: measures this
    worker's steps; for whoever reads it meanwhile.
    """
    training = session.job.training
    steps_total = planned_steps(session, share)
    clock = clock or StepClock()
    window, calibration = WindowAuc(), WindowCalibration()
    utilisation = Utilisation(session.job, peak)
    experts = ExpertWindow(session.model.sparsity) if session.model.sparsity is not None else None
    with open_reader(share.spec, share.plan) as reader:
        batches = LookAhead(reader)
        train_step = make_train_step(
            session.job,
            session.model,
            session.store,
            optimizer,
            session.devices,
            reader.dataset.element_spec[0],
        )
        step = rows = window_rows = counted_rows = 0
        losses: list[tuple[float, int]] = []
        started = window_started = time.monotonic()
        workers_left = int(total(np.array([int(batches.has_next)], np.int64))[0])
        while workers_left and step < (training.max_steps or step + 1):
            step += 1
            with clock.counts("input"):
                batch = batches.take()
            labels = np.asarray(batch.columns[session.job.data.label])
            check_labels(labels, label_column(session.job.data.label), share.spec)
            factor = rate_factor(session.job.schedule, step, steps_total)
            begun = time.time()
            result = train_step(
                batch.columns,
                tf.constant(step, tf.int64),
                tf.constant(factor, tf.float32),
                tf.constant(batches.has_next),
            )
            clock.ran(begun, Marks(*result.marks.numpy().tolist()), time.time())
            loss, step_rows, workers_left = float(result.loss), int(result.rows), int(result.workers_left)
            if not math.isfinite(loss):
                raise RunError(f"step {step}: the loss is {loss}: training has diverged; lower the learning rates")
            window.add(result.logits.numpy(), labels)
            calibration.add(result.logits.numpy(), labels, batch.columns.get(OFFSET))
            losses.append((loss, step_rows))
            utilisation.add(batch.columns, batch.rows)
            if experts is not None and result.active is not None:
                experts.add(result.active.numpy(), step_rows)
            rows += step_rows
            window_rows += step_rows
            if step == 1:
                started = window_started = time.monotonic()
                window_rows = 0
            else:
                counted_rows += step_rows
            clock.step_done(first=step == 1)
            if step % training.log_every_steps == 0 or not workers_left or step == training.max_steps:
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
                    saves.between_steps(step)
        seconds = time.monotonic() - started
        speed = counted_rows / max(seconds, 1e-9)
        return Trained(
            step,
            rows,
            seconds,
            speed,
            utilisation.at(speed),
            utilisation.flops_per_row,
            optimizer,
            batches.counts_of_all(),
        )
