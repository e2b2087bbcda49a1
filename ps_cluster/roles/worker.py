"""A worker's life: join, train, save, evaluate; worker 0 also tells of it and exports."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf
import tf_keras

from ps_cluster.checkpoint.dense import dense_values, load_dense
from ps_cluster.checkpoint.finding import folder_of, newest_checkpoint
from ps_cluster.checkpoint.saver import NotSaved, Saved, Saver
from ps_cluster.checkpoint.sole_writer import sole_writer
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.errors import RestartMe, RunError
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile
from ps_cluster.launch.pdeathsig import PARENT_VARIABLE
from ps_cluster.metrics.exact_auc import Evaluation
from ps_cluster.roles.readable import readable_errors
from ps_cluster.roles.telling import Teller
from ps_cluster.roles.until_done import tell_done
from ps_cluster.train.beginning import begun, planned_steps, resumed
from ps_cluster.train.collective import broadcast_from_first, joined, total
from ps_cluster.train.connect import connect
from ps_cluster.train.dense import make_dense_optimizer
from ps_cluster.train.drain import Drain
from ps_cluster.train.evaluate import evaluate
from ps_cluster.train.following import Following, follow_work, resumed_follow_work
from ps_cluster.train.fresh_tables import agreed_attempt, empty_tables
from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile
from ps_cluster.train.loop import Beside, train
from ps_cluster.train.peak import measured_peak
from ps_cluster.train.periodic_exports import PeriodicExports
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.recovery import Recovery
from ps_cluster.train.resume import restored, with_lost_steps
from ps_cluster.train.session import Samples, Session, groups_of, samples_of
from ps_cluster.train.shares import Share, share_of
from ps_cluster.train.state import TrainingState
from ps_cluster.train.step import make_score_step
from ps_cluster.train.trained_job import check_as_trained, meaning_of
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
    with (
        Teller(job_file, stream, told, figures) as teller,
        contextlib.ExitStack() as files,
        watchdog,
    ):
        teller.phase("start")
        if membership.index == 0:
            files.enter_context(sole_writer(job_file.checkpoints))
        watchdog.at("joining the other workers")
        with joined(membership, limits.wait_seconds) as ring, readable_errors():
            load_file_systems(*job_file.checkpoint_places)
            watchdog.at("connecting to the PS")
            devices = connect(membership, limits.wait_seconds)
            watchdog.at("start of the training", long=True)
            if membership.index == 0 and membership.ps:
                empty_tables(groups_of(job_file.job), job_file.job.name, devices, job_file.job.checkpoint.deltas > 0)
            attempt = agreed_attempt(membership.index)
            session = Session(job_file, membership, devices, attempt=attempt)
            optimizer = make_dense_optimizer(job_file.job.optimizers.dense)
            with tf.device(devices.compute):
                optimizer.build(session.model.trainable_variables)
            saved, where = restored(session, optimizer, train_samples, teller.damaged) if resume else (None, None)
            if session.rank == 0 and saved is None:
                _warm_start(session, teller)
            broadcast_from_first([*session.model.weights, *optimizer.variables])  # the others wait for the tables, too
            work = _work(session, train_samples, saved, teller)
            share = work.share
            test_share = None
            if test_samples is not None:
                test_share = share_of(session, test_samples, training=False, progress=teller.counting)
            peak = measured_peak(session.devices.compute, getattr(job_file.job.model, "precision", "float32"))
            state = begun(session, work) if saved is None else resumed(session, work, saved)
            endless = job_file.job.data.follow is not None and job_file.job.training.max_steps is None
            planned = None if endless else planned_steps(session, work, state.step)
            teller.start(session, share, test_share, planned, len(membership.ps), peak)
            last_step = None
            if session.rank == 0:
                last_step = LastStepFile(os.path.join(job_file.output, LAST_STEP))
                files.callback(last_step.close)
                state, again = with_lost_steps(state, last_step.read() if resume else None)
                last_step.write(LastStep(state.step, state.rows, state.rows_retrained, state.restarts))
                if saved is not None or again:
                    teller.resume(where, state)
            exports = files.enter_context(_exports(session, teller))
            saves = _saves(session, optimizer, train_samples, teller, exports)
            if saved is not None:
                saves.resumed(saved.step)
            recovery = None
            if limits.recovery == "shard":
                tell = teller.recovered
                recovery = Recovery(session, optimizer, membership, ring, watchdog, saves, attempt, tell)
            drain.defer()
            traces = TraceRequests(job_file.output, session.rank)
            following = None
            if job_file.job.data.follow is not None:
                followed = state.followed if state.followed is not None else np.zeros(0, np.int64)
                following = files.enter_context(
                    Following(session, work, followed, state.newest_event, teller.file, lambda: teller.phase("wait"))
                )
            beside = Beside(saves, drain, last_step, figures.clock, traces, watchdog, recovery, following, exports.tick)
            trained = train(session, work, state, optimizer, teller.step, peak, beside)
            watchdog.at("end of the training", long=True)
            exports.close()
            teller.trained()
            step, folder = trained.state.step, folder_of(job_file.checkpoints, trained.state.step)
            if not trained.drained:
                teller.reading("train", share, trained.counts)
                teller.tables(session.store.stats() if session.rank == 0 else [])
            if session.rank == 0:
                teller.phase("save")
                teller.saved(saves.finish(trained.state), "checkpoint")
            words = f"drained at step {step}: checkpoint {folder}; {_AGAIN}"
            if total(np.array([drain.asked], np.int64))[0]:  # worker 0's checkpoint is whole
                raise RestartMe(words)
            drain.end_at_once(words)
            if test_share is not None:
                watchdog.at("evaluation", long=True)
                teller.evaluation(evaluate_session(session, test_share, teller))
            total(np.ones(1, np.int64))  # nobody leaves the ring before all are done
            if membership.index == 0 and membership.ps and done_file is not None:
                tell_done(session.devices.ps, done_file)
                drain.defer()  # there is nobody any more to begin again with
        watchdog.off()
        if membership.index == 0:
            teller.phase("export")
            teller.exported(_export_in_a_fresh_process(job_file, limits.long_wait_seconds))
            teller.done(time.monotonic() - started, trained)
            if report is not None:
                teller.write_report(report)


def run_evaluation(job_file: JobFile) -> Evaluation:
    """Scores the test rows with the newest checkpoint, in this one process."""
    test_samples = samples_of(job_file, "test")
    load_file_systems(job_file.checkpoints)
    checkpoint = newest_checkpoint(job_file.checkpoints)
    check_as_trained(job_file, checkpoint.manifest.trained)
    membership = Membership("worker", 0, (), ("localhost:1",))
    with (
        Teller(job_file, sys.stderr) as teller,
        joined(membership),
        readable_errors(),
    ):
        session = Session(job_file, membership, connect(membership), training=False)
        load_dense(checkpoint, session.model)
        session.store.restore(checkpoint.levels_of(session.store.table_names()))
        share = share_of(session, test_samples, training=False, progress=teller.counting)
        return evaluate_session(session, share, teller)


def evaluate_session(session: Session, share: Share, teller: Teller) -> Evaluation:
    """Test figures over all workers' rows; every worker calls it."""
    teller.phase("evaluate", 0, share.rows)
    found, counts = evaluate(
        share,
        session.job.data.label,
        lambda spec: make_score_step(session.job, session.model, session.store, session.devices, spec),
        os.path.join(session.job_file.output, "scratch", f"worker-{session.rank}"),
        lambda rows: teller.phase("evaluate", min(rows * session.num_workers, share.rows), share.rows),
    )
    teller.reading("test", share, counts)
    return found


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


def _saves(
    session: Session,
    optimizer: tf_keras.optimizers.Optimizer,
    samples: Samples,
    teller: Teller,
    exports: PeriodicExports,
) -> PeriodicSaves:
    settings = session.job.checkpoint
    saver = None
    if session.rank == 0:
        saver = Saver(
            session.job_file.checkpoints,
            session.store,
            lambda: dense_values(session.model, optimizer),
            meaning_of(session.job),
            samples.sampling.record() if samples.sampling else None,
            settings.keep,
            settings.deltas,
        )

    def tell(outcome: Saved | NotSaved) -> None:
        teller.checkpoint(outcome)
        if isinstance(outcome, Saved):
            exports.saved(outcome.step)

    others_wait = session.num_workers > 1 and session.job.training.sparse_updates == "asynchronous"
    return PeriodicSaves(saver, settings.every_steps, settings.every_minutes, others_wait, tell)


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
