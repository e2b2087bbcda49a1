"""A worker's life: connect, build, restore, train, save, evaluate; worker 0 also exports and tells of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tf_keras

from ps_cluster.checkpoint.dense import dense_values
from ps_cluster.checkpoint.finding import folder_of
from ps_cluster.checkpoint.saver import NotSaved, Saved, Saver
from ps_cluster.checkpoint.sole_writer import sole_writer
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.errors import RestartMe, RunError
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile
from ps_cluster.launch.pdeathsig import PARENT_VARIABLE
from ps_cluster.roles.evaluation import evaluate_session
from ps_cluster.roles.probes import probe_connections
from ps_cluster.roles.readable import readable_errors
from ps_cluster.roles.telling import Teller
from ps_cluster.roles.until_done import tell_done
from ps_cluster.train.beginning import begun, planned_steps, resumed
from ps_cluster.train.collective import Ring, broadcast_from_first, joined, total
from ps_cluster.train.connect import Devices, connect
from ps_cluster.train.dense import make_dense_optimizer
from ps_cluster.train.drain import Drain
from ps_cluster.train.following import Following, follow_work, resumed_follow_work
from ps_cluster.train.fresh_tables import agreed_attempt, empty_tables
from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile
from ps_cluster.train.loop import Beside, train
from ps_cluster.train.peak import measured_peak
from ps_cluster.train.periodic_exports import PeriodicExports
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.progress import Trained
from ps_cluster.train.recovery import Recovery
from ps_cluster.train.resume import restored, with_lost_steps
from ps_cluster.train.session import Samples, Session, groups_of, samples_of
from ps_cluster.train.shares import Share, share_of
from ps_cluster.train.state import TrainingState
from ps_cluster.train.trained_job import meaning_of
from ps_cluster.train.warm_start import warm_start
from ps_cluster.train.watchdog import Watchdog
from ps_cluster.train.work import Work, first_work, resumed_work
from ps_cluster.watch.serving import serve_figures
from ps_cluster.watch.trace import TraceRequests
from ps_cluster.watch.worker_figures import WorkerFigures

_AGAIN = "start again with --resume to go on"


def run_worker(
    job_file: JobFile,
    membership: Membership,
    events: str | None,
    report: str | None,
    resume: bool = False,
    done_file: str | None = None,
) -> None:
    """Trains the job as worker `membership.index`; TensorFlow must have been imported quietly before. In the main
    thread: it takes SIGTERM over, which ends the process with the code RESTART where training can go on from.

    Args:
      job_file: the job.
      membership: this worker's place.
      events: file that worker 0 appends events to, as JSON lines; None: it only prints.
      report: file that worker 0 writes the run's report to.
      resume: go on from the newest whole checkpoint, if there is one.
      done_file: file that worker 0 writes on the machine of each PS when the tables are needed no more.

    Raises:
      UserError, DataError: the job or its data are wrong.
      RestartMe: it was asked to end, and all is saved.
      RunError: the run failed; names the cause.
    """
    started = time.monotonic()
    drain = Drain()
    drain.install()
    drain.end_at_once(f"drained before training; {_AGAIN}")
    train_samples = samples_of(job_file, "train")
    test_samples = samples_of(job_file, "test") if job_file.job.data.test else None
    stream, told = (sys.stdout, events) if membership.index == 0 else (None, None)
    figures = WorkerFigures(membership.index, whole_job=membership.index == 0)
    limits = job_file.job.failures
    watchdog = Watchdog(membership, limits)
    serve_figures(job_file, membership, figures, lambda: figures.health(watchdog.wait()))
    probe_connections()
    with (
        Teller(job_file, stream, told, figures) as teller,
        contextlib.ExitStack() as files,
        watchdog,
    ):
        worker = _Worker(job_file, membership, train_samples, test_samples, drain, figures, watchdog, teller, files)
        teller.phase("start")
        if membership.index == 0:
            files.enter_context(sole_writer(job_file.checkpoints))
        watchdog.at("joining the other workers")
        with joined(membership, limits.wait_seconds) as ring, readable_errors():
            devices = _connect(worker)
            built = _build(worker, devices)
            start = _begin_or_restore(worker, built, resume)
            exports = files.enter_context(_exports(built.session, teller))
            saves = _saves(worker, built, start, exports)
            beside = _beside(worker, built, start, ring, saves, exports.tick)
            trained = _train(worker, built, start, beside, exports)
            _save(worker, built, saves, trained)
            _evaluate(worker, built, start)
            _release_ps(worker, built, done_file)
        watchdog.off()
        if membership.index == 0:
            teller.phase("export")
            teller.exported(_export_in_a_fresh_process(job_file, limits.long_wait_seconds))
            teller.done(time.monotonic() - started, trained)
            if report is not None:
                teller.write_report(report)


@dataclass(frozen=True)
class _Worker:
    """What a worker has from before it joins the others until its end.

    files: closed at the end, after the ring has been left.
    """

    job_file: JobFile
    membership: Membership
    train_samples: Samples
    test_samples: Samples | None
    drain: Drain
    figures: WorkerFigures
    watchdog: Watchdog
    teller: Teller
    files: contextlib.ExitStack


@dataclass(frozen=True)
class _Built:
    """attempt: at this training, known to all workers."""

    session: Session
    optimizer: tf_keras.optimizers.Optimizer
    attempt: str


@dataclass(frozen=True)
class _Start:
    """Where training begins, or goes on.

    peak: operations per second that all workers' devices can do. saved_step: of the checkpoint it goes on from; None:
    it begins. last_step: on worker 0.
    """

    work: Work
    test_share: Share | None
    peak: float
    state: TrainingState
    saved_step: int | None
    last_step: LastStepFile | None


# --- The stages of its life, in their order; every worker calls each -------------------------------------------------


def _connect(worker: _Worker) -> Devices:
    """To the PS, once all of them serve."""
    load_file_systems(*worker.job_file.checkpoint_places)
    worker.watchdog.at("connecting to the PS")
    return connect(worker.membership, worker.job_file.job.failures.wait_seconds)


def _build(worker: _Worker, devices: Devices) -> _Built:
    """The model, its optimiser, and tables that are empty."""
    job_file, membership, job = worker.job_file, worker.membership, worker.job_file.job
    worker.watchdog.at("start of the training", long=True)
    if membership.index == 0 and membership.ps:
        empty_tables(groups_of(job), job.name, devices, job.checkpoint.deltas > 0)
    attempt = agreed_attempt(membership.index)
    session = Session(job_file, membership, devices, attempt=attempt)
    optimizer = make_dense_optimizer(job.optimizers.dense)
    with tf.device(devices.compute):
        optimizer.build(session.model.trainable_variables)
    return _Built(session, optimizer, attempt)


def _begin_or_restore(worker: _Worker, built: _Built, resume: bool) -> _Start:
    """Fills the model and the tables, finds out what there is to train, and tells of it."""
    teller, session, optimizer = worker.teller, built.session, built.optimizer
    saved, where = restored(session, optimizer, worker.train_samples, teller.damaged) if resume else (None, None)
    if session.rank == 0 and saved is None:
        _warm_start(session, teller)
    broadcast_from_first([*session.model.weights, *optimizer.variables])  # the others wait for the tables, too
    work = _work(session, worker.train_samples, saved, teller)
    test_share = None
    if worker.test_samples is not None:
        test_share = share_of(session, worker.test_samples, training=False, progress=teller.counting)
    peak = measured_peak(session.devices.compute, getattr(session.job.model, "precision", "float32"))
    state = begun(session, work) if saved is None else resumed(session, work, saved)
    endless = session.job.data.follow is not None and session.job.training.max_steps is None
    planned = None if endless else planned_steps(session, work, state.step)
    teller.start(session, work.share, test_share, planned, len(worker.membership.ps), peak)
    last_step = None
    if session.rank == 0:
        last_step = LastStepFile(os.path.join(worker.job_file.output, LAST_STEP))
        worker.files.callback(last_step.close)
        state, again = with_lost_steps(state, last_step.read() if resume else None)
        last_step.write(LastStep(state.step, state.rows, state.rows_retrained, state.restarts))
        if saved is not None or again:
            teller.resume(where, state)
    return _Start(work, test_share, peak, state, None if saved is None else saved.step, last_step)


def _beside(
    worker: _Worker, built: _Built, start: _Start, ring: Ring, saves: PeriodicSaves, between: Callable[[], None]
) -> Beside:
    """What goes on beside the steps. From here on a drain waits for the end of a step."""
    session, state, teller, watchdog = built.session, start.state, worker.teller, worker.watchdog
    recovery = None
    if session.job.failures.recovery == "shard":
        membership, attempt = worker.membership, built.attempt
        recovery = Recovery(session, built.optimizer, membership, ring, watchdog, saves, attempt, teller.recovered)
    worker.drain.defer()
    traces = TraceRequests(worker.job_file.output, session.rank)
    following = None
    if session.job.data.follow is not None:
        followed = state.followed if state.followed is not None else np.zeros(0, np.int64)
        following = worker.files.enter_context(
            Following(session, start.work, followed, state.newest_event, teller.file, lambda: teller.phase("wait"))
        )
    clock, last_step = worker.figures.clock, start.last_step
    return Beside(saves, worker.drain, last_step, clock, traces, watchdog, recovery, following, between)


def _train(worker: _Worker, built: _Built, start: _Start, beside: Beside, exports: PeriodicExports) -> Trained:
    """Until the data, `max_steps` or a drain ends it; tells what was read and trained."""
    session, teller, share = built.session, worker.teller, start.work.share
    trained = train(session, start.work, start.state, built.optimizer, teller.step, start.peak, beside)
    worker.watchdog.at("end of the training", long=True)
    exports.close()
    teller.trained()
    if not trained.drained:
        teller.reading("train", share, trained.counts)
        teller.tables(session.store.stats() if session.rank == 0 else [])
    return trained


def _save(worker: _Worker, built: _Built, saves: PeriodicSaves, trained: Trained) -> None:
    """The last checkpoint. A process that was asked to end leaves after it: here, or by itself from here on."""
    drain, teller = worker.drain, worker.teller
    step, folder = trained.state.step, folder_of(worker.job_file.checkpoints, trained.state.step)
    if built.session.rank == 0:
        teller.phase("save")
        teller.saved(saves.finish(trained.state), "checkpoint")
    words = f"drained at step {step}: checkpoint {folder}; {_AGAIN}"
    if total(np.array([drain.asked], np.int64))[0]:  # worker 0's checkpoint is whole
        raise RestartMe(words)
    drain.end_at_once(words)


def _evaluate(worker: _Worker, built: _Built, start: _Start) -> None:
    """On the test rows, where the job has any."""
    if start.test_share is not None:
        worker.watchdog.at("evaluation", long=True)
        worker.teller.evaluation(evaluate_session(built.session, start.test_share, worker.teller))


def _release_ps(worker: _Worker, built: _Built, done_file: str | None) -> None:
    """Tells the PS that the tables are needed no more."""
    total(np.ones(1, np.int64))  # nobody leaves the ring before all are done
    if worker.membership.index == 0 and worker.membership.ps and done_file is not None:
        tell_done(built.session.devices.ps, done_file)
        worker.drain.defer()  # there is nobody any more to begin again with


def _warm_start(session: Session, teller: Teller) -> None:
    start = session.job.checkpoint.warm_start
    if start is None:
        return
    teller.phase("start")
    place = session.job_file.place(start.folder)
    checkpoint, rows = warm_start(session.store, place, start.tables, start.take, session.devices.ps)
    teller.warm_start(checkpoint.folder, checkpoint.step, rows)


def _work(session: Session, samples: Samples, saved: TrainingState | None, teller: Teller) -> Work:
    """What this worker has to train; every worker calls it."""
    if session.job.data.follow is not None:
        return follow_work(session, samples) if saved is None else resumed_follow_work(session, samples, saved.ledger)
    share = share_of(session, samples, training=True, progress=teller.counting)
    return first_work(session, share) if saved is None else resumed_work(session, share, saved.ledger)


def _exports(session: Session, teller: Teller) -> PeriodicExports:
    """Those of the job, on worker 0; elsewhere none."""
    settings = session.job.export if session.rank == 0 else None
    return PeriodicExports(session.job_file, settings, session.job.failures.long_wait_seconds, teller.periodic_export)


def _saves(worker: _Worker, built: _Built, start: _Start, exports: PeriodicExports) -> PeriodicSaves:
    """Those of the job; `exports` is told of each."""
    session, settings, sampling = built.session, built.session.job.checkpoint, worker.train_samples.sampling
    saver = None
    if session.rank == 0:
        saver = Saver(
            session.job_file.checkpoints,
            session.store,
            lambda: dense_values(session.model, built.optimizer),
            meaning_of(session.job),
            sampling.record() if sampling else None,
            settings.keep,
            settings.deltas,
        )

    def tell(outcome: Saved | NotSaved) -> None:
        worker.teller.checkpoint(outcome)
        if isinstance(outcome, Saved):
            exports.saved(outcome.step)

    others_wait = session.num_workers > 1 and session.job.training.sparse_updates == "asynchronous"
    saves = PeriodicSaves(saver, settings.every_steps, settings.every_minutes, others_wait, tell)
    if start.saved_step is not None:
        saves.resumed(start.saved_step)
    return saves


def _export_in_a_fresh_process(job_file: JobFile, limit_seconds: float) -> str:
    """Exports in a process of its own: this one's TensorFlow is tied to the cluster's devices."""
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid()), "CUDA_VISIBLE_DEVICES": "-1"}
    environment.pop("TF_CONFIG", None)
    command = [sys.executable, "-m", "ps_cluster", "export", job_file.path]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        raise RunError(f"export: `{' '.join(command[1:])}` did not end within {limit_seconds:g} s") from None
    if done.returncode != 0:
        raise RunError(f"export: `{' '.join(command[1:])}` ended with status {done.returncode}")
    return done.stdout.strip().splitlines()[-1]
