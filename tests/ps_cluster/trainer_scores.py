"""A program that scores a job's test rows as the trainer does: tables of the checkpoint, our ops, the ORC reader.

Usage: python -m tests.ps_cluster.trainer_scores JOB.yaml OUTPUTS.npz
"""

from __future__ import annotations

import sys

from ps_cluster.quiet import import_tensorflow


def main(job_path: str, outputs: str) -> None:
    """Write the logit and the label of each test row, in the files' order."""
    import_tensorflow(gpu=False)
    import numpy as np

    from data.orc import open_reader
    from ops.library import load
    from ps_cluster.checkpoint.dense import load_dense
    from ps_cluster.checkpoint.finding import newest_checkpoint
    from ps_cluster.job.load import load_job
    from ps_cluster.job.membership import Membership
    from ps_cluster.train.collective import joined
    from ps_cluster.train.connect import connect
    from ps_cluster.train.session import Session, samples_of
    from ps_cluster.train.step import make_score_step

    load()
    job_file = load_job(job_path)
    membership = Membership("worker", 0, (), ("localhost:1",))
    with joined(membership):
        session = Session(job_file, membership, connect(membership), training=False)
        checkpoint = newest_checkpoint(job_file.checkpoints)
        load_dense(checkpoint, session.model)
        session.store.restore(checkpoint.levels_of(session.store.table_names()))
        with open_reader(session.read_spec(samples_of(job_file, "test"), training=False)) as reader:
            spec = reader.dataset.element_spec[0]
            score = make_score_step(session.job, session.model, session.store, session.devices, spec)
            logits, labels = [], []
            for columns, _ in reader.dataset:
                logits.append(score(columns).numpy())
                labels.append(columns[session.job.data.label].numpy())
    np.savez(outputs, logit=np.concatenate(logits), label=np.concatenate(labels))


if __name__ == "__main__":
    main(*sys.argv[1:])
