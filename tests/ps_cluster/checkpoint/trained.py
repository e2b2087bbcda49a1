"""A small training whose checkpoints can be made at any step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from models.build import build_model
from ps_cluster.checkpoint.saver import NotSaved, Saved, Saver
from ps_cluster.job.resolve import inputs_of
from ps_cluster.job.schema import Job
from ps_cluster.train.session import groups_of
from tests.ps_cluster.small_job import batch_of, ids_of, optimizer_of, saver_of
from tests.ps_cluster.stores import store_of, train

ROWS = 20


class EagerSaver:
    """A saver whose saves are waited for; those of `save_without_end` may be deltas."""

    def __init__(self, saver: Saver):
        self.saver = saver

    def save_without_end(self, step: int) -> Saved | NotSaved:
        self.saver.begin(step)
        self.saver.wait()
        (outcome,) = self.saver.outcomes()
        return outcome


class Trained:
    """Tables, a model and its optimiser, and what saves them below `output`."""

    def __init__(self, job: Job, output: str, seed: int = 1):
        self.job = job
        self.store = store_of(groups_of(job), deltas=job.checkpoint.deltas > 0)
        self.model = build_model(job.model, inputs_of(job), seed)
        self.optimizer = optimizer_of(job, self.model)
        self.saver = EagerSaver(saver_of(job, output, self.store, self.model, self.optimizer))
        self.step = 0
        self._random = np.random.default_rng(seed)

    def train_until(self, step: int) -> None:
        while self.step < step:
            self.step += 1
            train(self.store, ids_of(self.job, batch_of(self._random, ROWS)), self.step, batch_rows=ROWS)
            moves = [self._random.normal(size=weight.shape) for weight in self.model.trainable_variables]
            gradients = [tf.constant(move, tf.float32) for move in moves]
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
