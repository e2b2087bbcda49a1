"""Test figures: within a training, or of its newest checkpoint in a process of its own."""

from __future__ import annotations

import os
import sys

from ps_cluster.checkpoint.dense import load_dense
from ps_cluster.checkpoint.finding import newest_checkpoint
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile
from ps_cluster.metrics.exact_auc import Evaluation
from ps_cluster.roles.readable import readable_errors
from ps_cluster.roles.telling import Teller
from ps_cluster.train.collective import joined
from ps_cluster.train.connect import connect
from ps_cluster.train.evaluate import evaluate
from ps_cluster.train.session import Session, samples_of
from ps_cluster.train.shares import Share, share_of
from ps_cluster.train.step import make_score_step
from ps_cluster.train.trained_job import check_as_trained


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
        os.path.join(session.job_file.output, "scratch"),
        lambda rows: teller.phase("evaluate", min(rows * session.num_workers, share.rows), share.rows),
    )
    teller.reading("test", share, counts)
    return found
