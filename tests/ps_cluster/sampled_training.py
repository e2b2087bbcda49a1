"""A program that trains jobs on sampled rows, drawn by the job's own sampling, and tells how well each is calibrated.

Usage: python -m tests.ps_cluster.sampled_training FOLDER NAME..., with the jobs FOLDER/NAME.yaml; writes
FOLDER/NAME.json and so on.

They are trained as a worker trains, but the one named `without` by steps without the offsets. Besides the figures of
the evaluation, a result has the mean distance of the served model's probabilities from the true ones (column `truth` of
the test rows), and their mean over that of the labels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ps_cluster.quiet import import_tensorflow

if TYPE_CHECKING:
    from ps_cluster.job.membership import Membership
    from ps_cluster.train.connect import Devices


def main(folder: str, *names: str) -> None:
    import_tensorflow(gpu=False)

    from ops.library import load
    from ps_cluster.job.membership import Membership
    from ps_cluster.train.collective import joined
    from ps_cluster.train.connect import connect

    load()
    membership = Membership("worker", 0, (), ("localhost:1",))
    with joined(membership):
        devices = connect(membership)
        for how in names:
            found = trained(str(Path(folder) / f"{how}.yaml"), how != "without", membership, devices)
            (Path(folder) / f"{how}.json").write_text(json.dumps(found))


def silent(done: int, total: int) -> None:
    """Nobody watches."""


def whole(paths: Sequence[str]) -> dict[str, Any]:
    """All rows of one file."""
    import pyarrow as pa

    from data.scan.raw_rows import raw_rows

    (path,) = paths
    table = pa.Table.from_batches([stripe.batch for stripe in raw_rows([path])]).combine_chunks()
    return {name: table[name].chunk(0) for name in table.column_names}


def trained(job_path: str, with_offset: bool, membership: Membership, devices: Devices) -> dict[str, Any]:
    """Trains, saves, evaluates, exports and serves one job."""
    import numpy as np
    import tensorflow as tf

    from data.read.footers import read_footer
    from data.sample.sampling import WEIGHT, sample
    from ps_cluster.checkpoint.dense import dense_values
    from ps_cluster.checkpoint.finding import newest_checkpoint
    from ps_cluster.checkpoint.saver import Saver
    from ps_cluster.export.saved_model import export_saved_model
    from ps_cluster.job.load import load_job
    from ps_cluster.roles.evaluation import evaluate_session
    from ps_cluster.roles.telling import Teller
    from ps_cluster.train.beginning import begun
    from ps_cluster.train.dense import make_dense_optimizer
    from ps_cluster.train.loop import train as train_all
    from ps_cluster.train.session import Session, samples_of
    from ps_cluster.train.shares import share_of
    from ps_cluster.train.step import WISHES, make_train_step
    from ps_cluster.train.trained_job import meaning_of
    from ps_cluster.train.work import first_work

    job_file = load_job(job_path)
    job = job_file.job
    train, test = samples_of(job_file, "train"), samples_of(job_file, "test")
    assert train.sampling is not None
    columns = whole(train.paths)
    read = kept = len(columns["click"])
    if train.sampling.sampling is not None:
        sampled = sample(train.sampling.sampling, columns, read_footer(train.paths[0]).file_key, np.arange(read))
        kept = len(sampled.weight)
    session = Session(job_file, membership, devices)
    optimizer = make_dense_optimizer(job.optimizers.dense)
    if with_offset:
        share = share_of(session, train, training=True, progress=silent)
        work = first_work(session, share)
        done = train_all(session, work, begun(session, work), optimizer, lambda _: None, peak=1.0).state
        number = done.step
        assert done.rows == job.training.epochs * kept
    else:
        rows = {name: column.to_numpy()[sampled.keep] for name, column in columns.items()}
        given = {"user": rows["user"], "item": rows["item"], "click": rows["click"].astype(np.float32)}
        given[WEIGHT] = sampled.weight
        spec = {name: tf.TensorSpec([None], column.dtype) for name, column in given.items()}
        step = make_train_step(job, session.model, session.store, optimizer, session.devices, spec)
        number, size = 0, job.training.batch_size
        random, wishes = np.random.default_rng(1), tf.zeros([WISHES])
        for _ in range(job.training.epochs):
            order = random.permutation(len(sampled.weight))
            for start in range(0, len(order), size):
                number += 1
                batch = {name: tf.constant(column[order[start : start + size]]) for name, column in given.items()}
                step(batch, tf.constant(number, tf.int64), tf.constant(1.0), tf.constant(True), wishes)
    told = train.sampling.record()
    dense = lambda: dense_values(session.model, optimizer)  # noqa: E731
    Saver(job_file.checkpoints, session.store, dense, meaning_of(job), told, keep=1).save(number)
    with Teller(job_file, None) as teller:
        evaluation = evaluate_session(session, share_of(session, test, training=False, progress=silent), teller)
    assert newest_checkpoint(job_file.checkpoints).manifest.sampling == told
    folder = export_saved_model(job_file)
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    scored = whole(test.paths)
    inputs = {name: tf.constant(scored[name].to_numpy()) for name in ("user", "item")}
    served = serve(**inputs)["probability"].numpy()
    return {
        "calibration": evaluation.calibration,
        "auc": evaluation.auc,
        "served_calibration": float(served.mean() / scored["click"].to_numpy().mean()),
        "served_error": float(np.abs(served - scored["truth"].to_numpy()).mean()),
        "kept": kept,
        "read": read,
        "exported": json.loads((Path(folder) / "assets.extra" / "training.json").read_text()),
        "recorded": told,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
