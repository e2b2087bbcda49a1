"""A small job with checkpoints that follow one another, and samples in files, to be exported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import tensorflow as tf
import tf_keras
import yaml

from data.orc_writer import OrcWriter, Settings
from models.build import build_model
from ps_cluster.checkpoint.finding import Checkpoint, checkpoint_at
from ps_cluster.embedding.ps_store import PsEmbeddingStore
from ps_cluster.job.resolve import JobFile, inputs_of
from ps_cluster.job.schema import Job
from ps_cluster.train.session import groups_of
from tests.ps_cluster.small_job import FIELDS, MOST, batch_of, ids_of, job_file_of, job_of, optimizer_of, saver_of
from tests.ps_cluster.stores import look_up, store_of, train


class Training:
    """Trains a small job step by step; each `save` is a checkpoint, those after the first deltas where `deltas`."""

    def __init__(self, folder: Path, changes: Mapping | None = None, deltas: int = 0):
        self.job: Job = job_of({"checkpoint": {"deltas": deltas, "keep": 9}, **(changes or {})})
        self.job_file: JobFile = job_file_of(self.job, folder)
        self.random = np.random.default_rng(3)
        self.step = 0
        self.store: PsEmbeddingStore = store_of(groups_of(self.job), deltas=deltas > 0)
        self.model: tf_keras.Model = build_model(self.job.model, inputs_of(self.job), self.job.training.seed)
        self._optimizer = optimizer_of(self.job, self.model)
        self._saver = saver_of(self.job, self.job_file.output, self.store, self.model, self._optimizer)

    def train(self, steps: int, rows: int = 20, most: int = MOST) -> None:
        """Moves the tables and the dense weights."""
        for _ in range(steps):
            self.step += 1
            train(self.store, ids_of(self.job, batch_of(self.random, rows, most)), self.step, batch_rows=rows)
        weights = self.model.trainable_variables
        gradients = [tf.constant(self.random.normal(size=weight.shape), tf.float32) for weight in weights]
        self._optimizer.apply_gradients(zip(gradients, weights))

    def save(self) -> Checkpoint:
        """The state as it is, as a checkpoint."""
        self._saver.begin(self.step)
        self._saver.wait()
        outcomes = self._saver.outcomes()
        assert all(hasattr(one, "pause_seconds") for one in outcomes), outcomes
        return checkpoint_at(self._saver.folder(self.step))

    def logits(self, batch: Mapping) -> np.ndarray:
        """What the trainer's evaluation gives."""
        vectors = look_up(self.store, ids_of(self.job, batch), training=False)
        values = {**vectors, "age": tf.constant(batch["age"])}
        return tf.squeeze(self.model(values, training=False), axis=1).numpy()


def write_samples(folder: Path, rows: int = 300, seed: int = 11) -> dict:
    """Writes `train.orc` of several stripes; half of the ids were never trained. Returns the columns."""
    random = np.random.default_rng(seed)
    batch = batch_of(random, rows, most=2 * MOST)
    columns = {
        **{name: pa.array(np.asarray(batch[name], np.int64)) for name in ("user", "shown")},
        **{name: pa.array(batch[name], pa.list_(pa.int64())) for name in ("history", "genres", "liked")},
        "age": pa.array(batch["age"]),
        "label": pa.array(random.integers(0, 2, rows).astype(np.int32)),
        "day": pa.array(np.arange(rows) // 100),
    }
    table = pa.table(columns)
    folder.mkdir(parents=True, exist_ok=True)
    with OrcWriter(str(folder / "train.orc"), table.schema, settings=Settings(stripe_rows=64)) as writer:
        writer.write(table)
    return batch


def write_job(job_file: JobFile, changes: Mapping) -> str:
    """Writes the job's file, as the commands need it; its path."""
    os.makedirs(job_file.folder, exist_ok=True)
    with open(job_file.path, "w", encoding="utf-8") as file:
        yaml.safe_dump({**FIELDS, **changes}, file)
    return job_file.path
