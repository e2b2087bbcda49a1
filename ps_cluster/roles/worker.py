"""A worker's life: join, train, save, evaluate; worker 0 also tells of it and exports."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import tf_keras

from ps_cluster.checkpoint.dense import dense_values, load_dense
from ps_cluster.checkpoint.finding import newest_checkpoint
from ps_cluster.checkpoint.saver import Saver
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile
from ps_cluster.launch.pdeathsig import PARENT_VARIABLE
from ps_cluster.metrics.exact_auc import Evaluation
from ps_cluster.roles.readable import readable_errors
from ps_cluster.roles.telling import Teller
from ps_cluster.train.collective import broadcast_from_first, joined, total
from ps_cluster.train.connect import connect
from ps_cluster.train.dense import make_dense_optimizer
from ps_cluster.train.evaluate import evaluate
from ps_cluster.train.loop import planned_steps, train
from ps_cluster.train.peak import measured_peak
from ps_cluster.train.periodic_saves import PeriodicSaves
from ps_cluster.train.session import Samples, Session, samples_of
from ps_cluster.train.shares import Share, share_of
from ps_cluster.train.step import make_score_step
from ps_cluster.train.trained_job import check_as_trained, meaning_of
from ps_cluster.train.warm_start import warm_start


def run_worker(job_file: JobFile, membership: Membership, events: str | None, report: str | None) -> None:
    """Trains the job as worker `membership.index`; TensorFlow must have been imported quietly before.

    Args:
      job_file: the job.
      membership: this worker's place.
      events: file that worker 0 appends events to, as JSON lines; None: it only prints.
      report: file that worker 0 writes the run's report to.

    Raises:
      UserError, DataError: the job or its data are wrong.
      RunError: the run failed; names the cause.
    """
    started = time.monotonic()
    train_samples = samples_of(job_file, "train")
    test_samples = samples_of(job_file, "test") if job_file.job.data.test else None
    told = (sys.stdout, events) if membership.index == 0 else (None, None)
    with Teller(job_file, *told) as teller:
        teller.phase("start")
        with joined(membership), readable_errors():
            load_file_systems(*job_file.checkpoint_places)
            session = Session(job_file, membership, connect(membership))
            optimizer = make_dense_optimizer(job_file.job.optimizers.dense)
            if session.rank == 0:
                _warm_start(session, teller)
            broadcast_from_first(session.model.weights)  # the others wait for the warm start too
            share = share_of(session, train_samples, training=True, progress=teller.counting)
            test_share = None
            if test_samples is not None:
                test_share = share_of(session, test_samples, training=False, progress=teller.counting)
            peak = measured_peak(session.devices.compute, getattr(job_file.job.model, "precision", "float32"))
            teller.start(session, share, test_share, planned_steps(session, share), len(membership.ps), peak)
            saves = _saves(session, optimizer, train_samples, teller)
            trained = train(session, share, optimizer, teller.step, peak, saves)
            teller.reading("train", share, trained.counts)
            teller.tables(session.store.stats() if session.rank == 0 else [])
            if session.rank == 0:
                teller.phase("save")
                teller.saved(saves.finish(trained.steps), "checkpoint")
            if test_share is not None:
                teller.evaluation(evaluate_session(session, test_share, teller))
            total(np.ones(1, np.int64))  # nobody leaves the ring before all are done
        if membership.index == 0:
            teller.phase("export")
            teller.exported(_export_in_a_fresh_process(job_file))
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


def _saves(
    session: Session, optimizer: tf_keras.optimizers.Optimizer, samples: Samples, teller: Teller
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
    others_wait = session.num_workers > 1 and session.job.training.sparse_updates == "asynchronous"
    return PeriodicSaves(saver, settings.every_steps, others_wait, teller.checkpoint)


def _export_in_a_fresh_process(job_file: JobFile) -> str:
    """Exports in a process of its own: this one's TensorFlow is tied to the cluster's devices."""
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid()), "CUDA_VISIBLE_DEVICES": "-1"}
    environment.pop("TF_CONFIG", None)
    command = [sys.executable, "-m", "ps_cluster", "export", job_file.path]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RunError(f"export: `{' '.join(command[1:])}` ended with status {done.returncode}")
    return done.stdout.strip().splitlines()[-1]
