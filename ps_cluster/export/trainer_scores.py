"""A program that scores a file of samples as the trainer's evaluation does: tables of a checkpoint, our ops.

Usage: python -m ps_cluster.export.trainer_scores ASKED.json
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from ps_cluster.errors import RunError, UserError


def main(asked: str) -> int:
    """Writes the logit and the label of each row to the file that is asked for."""
    with open(asked, encoding="utf-8") as file:
        wanted = json.load(file)
    try:
        _score(wanted)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _score(wanted: dict[str, Any]) -> None:
    from ps_cluster.quiet import import_tensorflow

    import_tensorflow(gpu=False)
    import numpy as np

    from data.orc import open_reader
    from ops.library import load
    from ps_cluster.checkpoint.dense import load_dense
    from ps_cluster.checkpoint.finding import checkpoint_at
    from ps_cluster.checkpoint.storage import load_file_systems
    from ps_cluster.job.membership import Membership
    from ps_cluster.job.resolve import JobFile
    from ps_cluster.job.samples import read_spec
    from ps_cluster.job.schema import Job
    from ps_cluster.roles.readable import readable_errors
    from ps_cluster.train.collective import joined
    from ps_cluster.train.connect import connect
    from ps_cluster.train.session import Session
    from ps_cluster.train.step import make_score_step

    load()
    job_file = JobFile(Job.model_validate_json(wanted["job"]), wanted["path"], wanted["folder"], "")
    load_file_systems(wanted["checkpoint"])
    membership = Membership("worker", 0, (), ("localhost:1",))
    with joined(membership), readable_errors(pages=False):
        session = Session(job_file, membership, connect(membership), training=False)
        checkpoint = checkpoint_at(wanted["checkpoint"], devices=())
        load_dense(checkpoint, session.model)
        session.store.restore(checkpoint.levels_of(session.store.table_names()))
        spec = replace(read_spec(job_file.job, (wanted["samples"],)), where=None, on_bad="error")
        logits, labels = [], []
        with open_reader(spec) as reader:
            score = make_score_step(
                session.job, session.model, session.store, session.devices, reader.dataset.element_spec[0]
            )
            for columns, _ in reader.dataset:
                logits.append(score(columns).numpy())
                labels.append(columns[session.job.data.label].numpy())
    np.savez(wanted["scores"], logit=np.concatenate(logits), label=np.concatenate(labels))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
