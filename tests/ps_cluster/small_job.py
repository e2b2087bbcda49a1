"""A job small enough to train by hand in a test: every kind of feature, several row layouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras

from models.build import build_model
from ps_cluster.checkpoint.dense import dense_values
from ps_cluster.checkpoint.finding import below
from ps_cluster.checkpoint.saver import Saver
from ps_cluster.embedding.ps_store import PsEmbeddingStore
from ps_cluster.job.resolve import JobFile, inputs_of
from ps_cluster.job.schema import Job
from ps_cluster.train.dense import make_dense_optimizer
from ps_cluster.train.session import groups_of
from ps_cluster.train.trained_job import meaning_of
from tests.ps_cluster.stores import ragged, store_of, train

MOST = 30  # ids lie below
FIELDS: dict = {
    "name": "small",
    "data": {"train": ["train.orc"], "label": "label"},
    "features": [
        {"name": "user", "kind": "id", "dim": 4},
        {"name": "shown", "kind": "id", "table": "item"},
        {"name": "history", "kind": "id_list", "table": "item", "pooling": "none", "query": "shown", "max_length": 3},
        {"name": "genres", "kind": "id_list", "dim": 2, "pooling": "mean"},
        {"name": "liked", "kind": "id_list", "table": "item", "pooling": "sqrtn", "max_length": 2},
        {"name": "age", "kind": "dense"},
    ],
    "tables": {"item": {"dim": 4, "optimizer": {"name": "adam", "learning_rate": 0.05}}},
    "model": {"name": "deepfm", "fm_dim": 4, "hidden": [8]},
    "optimizers": {
        "sparse": {"name": "adagrad", "learning_rate": 0.5},
        "dense": {"name": "adam", "learning_rate": 0.01},
    },
    "training": {"batch_size": 8},
    "output": "output",
}


def job_of(changes: Mapping | None = None) -> Job:
    return Job.model_validate({**FIELDS, **(changes or {})})


def job_file_of(job: Job, folder: Path) -> JobFile:
    return JobFile(job, str(folder / "job.yaml"), str(folder), "")


def batch_of(random: np.random.Generator, rows: int, most: int = MOST) -> dict:
    """Features by name; lists as lists of at most 5 ids."""
    lists = {
        name: [random.integers(-most, most, random.integers(0, 6)).tolist() for _ in range(rows)]
        for name in ("history", "genres", "liked")
    }
    return {
        "user": random.integers(-most, most, rows),
        "shown": random.integers(-most, most, rows),
        "age": random.normal(size=rows).astype(np.float32) * 20,
        **lists,
    }


def ids_of(job: Job, batch: Mapping) -> dict:
    """The ids of a batch as the trainer's reader gives them: lists cut to their last `max_length`."""
    ids: dict = {name: tf.constant(batch[name], tf.int64) for name in ("user", "shown")}
    for feature in job.features:
        if feature.kind == "id_list":
            ids[feature.name] = ragged([one[-(feature.max_length or len(one) or 1) :] for one in batch[feature.name]])
    return ids


def optimizer_of(job: Job, model: tf_keras.Model) -> tf_keras.optimizers.Optimizer:
    optimizer = make_dense_optimizer(job.optimizers.dense)
    optimizer.build(model.trainable_variables)
    return optimizer


def saved(job: Job, output: str, step: int = 3) -> tuple[tf_keras.Model, PsEmbeddingStore, str]:
    """Trains the tables for `step` steps, moves the dense weights, saves; model, store, the checkpoint's folder."""
    random = np.random.default_rng(1)
    store = store_of(groups_of(job))
    for number in range(1, step + 1):
        train(store, ids_of(job, batch_of(random, 20)), number, batch_rows=20)
    model = build_model(job.model, inputs_of(job), job.training.seed)
    optimizer = optimizer_of(job, model)
    gradients = [tf.constant(random.normal(size=weight.shape), tf.float32) for weight in model.trainable_variables]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    saver = saver_of(job, output, store, model, optimizer)
    saver.save(step)
    return model, store, saver.folder(step)


def saver_of(
    job: Job, output: str, store: PsEmbeddingStore, model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer
) -> Saver:
    """A saver of a training whose checkpoints lie below `output`."""
    settings = job.checkpoint
    dense = lambda: dense_values(model, optimizer)  # noqa: E731
    return Saver(below(output), store, dense, meaning_of(job), None, settings.keep, settings.deltas)
