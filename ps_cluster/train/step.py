"""One step: look up → model → loss → all-reduce → apply.

The loss of a row is its weight times the cross-entropy of `sigmoid(logit - offset)` with its label, and the loss of a
batch is the mean of that over its rows (not over the sum of weights: a row of weight 2 pulls twice as hard). Without
sampling all weights are 1 and all offsets 0. The offset is what sampling did to the odds of the label
(`data.sampling`): the model's own logit is that of the rows before sampling, which evaluation and export use as it is.
A model with experts and two routers has two logits a row, and the loss is the mean of both; that, and a penalty of its
own, shape the gradients. What is told as the loss is of the logits that inference will give, without the penalty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
import tf_keras

from data.sample.sampling import OFFSET, WEIGHT
from models.build import Ranker
from ps_cluster.embedding.store import EmbeddingStore, Lookup, StepInfo
from ps_cluster.job.resolve import column_of, time_column
from ps_cluster.job.sampling import DAY_UNITS
from ps_cluster.job.schema import DenseFeature, Job
from ps_cluster.train.collective import sum_inside_step
from ps_cluster.train.connect import Devices
from ps_cluster.train.time_marks import time_mark

WISHES = 3
"""What a worker may wish for after a step: that it be saved (worker 0 alone), that training end there, and that all
workers meet (`ps_cluster.train.following`)."""


class StepResult(NamedTuple):
    """What a step tells: figures over all workers, and this worker's logits for its running AUC.

    loss: float32 scalar, mean over the rows of all workers. rows: int64 scalar, rows of all workers. workers_left:
    int64 scalar, how many workers have another batch. wishes: int64 `[WISHES]`, how many workers have each. logits:
    float32 `[batch]`, this worker's. marks: when the parts of the step were done, float64 `[4]`, a
    `ps_cluster.train.step_time.Marks`. gradient_norm: of the dense weights' mean gradient, float32 scalar.
    sparse_bytes: ids, embeddings and their gradients that this worker exchanged with the PS, int64 scalar. active: in
    how many of the rows each gate of an expert was above 0, float32 `[layers, tokens, experts]`; None without experts.
    """

    loss: tf.Tensor
    rows: tf.Tensor
    workers_left: tf.Tensor
    wishes: tf.Tensor
    logits: tf.Tensor
    marks: tf.Tensor
    gradient_norm: tf.Tensor
    sparse_bytes: tf.Tensor
    active: tf.Tensor | None = None


def split_features(job: Job, columns: dict) -> tuple[dict, dict]:
    """From columns to features: the ids to look up, and the dense values (float32 `[batch]`), by feature name."""
    ids: dict = {}
    dense: dict = {}
    for feature in job.features:
        into = dense if isinstance(feature, DenseFeature) else ids
        into[feature.name] = columns[column_of(feature).name]
    return ids, dense


def event_hour(job: Job, columns: dict) -> tf.Tensor | int:
    """Hours since 1970 of a batch's latest row by `data.time`: int64 scalar; 0 without that field or without rows."""
    if job.data.time is None:
        return 0
    latest = tf.reduce_max(tf.concat([columns[time_column(job.data.time).name], [0]], axis=0))
    return latest // (DAY_UNITS[job.data.time.unit] // 24)


def loss_sum(
    labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor | None = None, offsets: tf.Tensor | None = None
) -> tf.Tensor:
    """The losses of a batch, summed: float32 scalar; all arguments float32 `[batch]`."""
    if offsets is not None:
        logits = logits - offsets
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    return tf.reduce_sum(losses if weights is None else losses * weights)


def make_train_step(
    job: Job,
    model: Ranker,
    store: EmbeddingStore,
    optimizer: tf_keras.optimizers.Optimizer,
    devices: Devices,
    columns_spec: dict,
) -> Callable[..., StepResult]:
    """Returns `step(columns, step, rate_factor, has_next, wishes)`, traced once for all batch sizes.

    columns_spec: of the job's columns, the time's included, and with sampling of `sample_weight` and `sample_offset`,
    float32 `[batch]`. wishes: float32 `[WISHES]`, 0 or 1 each, of which all workers learn in the same step.

    Losses and gradients are summed over rows and divided once by the rows of all workers. N workers with batches of B
    rows so train exactly as one worker with N·B rows, also when the last batches are uneven or empty.
    """
    weights = model.trainable_variables
    with tf.device(devices.compute):
        optimizer.build(weights)
    peak_rate = job.optimizers.dense.learning_rate

    @tf.function(
        input_signature=[
            columns_spec,
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([], tf.float32),
            tf.TensorSpec([], tf.bool),
            tf.TensorSpec([WISHES], tf.float32),
        ],
        autograph=False,
    )
    def train_step(
        columns: dict, step: tf.Tensor, rate_factor: tf.Tensor, has_next: tf.Tensor, wishes: tf.Tensor
    ) -> StepResult:
        with tf.device(devices.cpu):
            ids, dense = split_features(job, columns)
            labels = columns[job.data.label]
            rows = tf.size(labels, tf.int64)
            hour = event_hour(job, columns)
        looked_up = store.lookup(ids, StepInfo(step, rows, rate_factor, hour), training=True)
        pulled = time_mark(looked_up.rows, devices.cpu)
        with tf.GradientTape() as tape:
            tape.watch(looked_up.rows)
            vectors = looked_up.vectors(looked_up.rows)
            with tf.device(devices.compute):
                called = model.training_call({**vectors, **dense})
                paths = tf.unstack(called.logits, axis=1)
                losses = [loss_sum(labels, logits, columns.get(WEIGHT), columns.get(OFFSET)) for logits in paths]
                trained = tf.add_n(losses) / len(losses)
                if called.penalty is not None:
                    trained += called.penalty
        gradients = tape.gradient(trained, [*looked_up.rows, *weights], unconnected_gradients="zero")
        row_gradients = gradients[: len(looked_up.rows)]
        computed = time_mark([_values(one) for one in gradients], devices.cpu, devices.compute)
        with tf.device(devices.compute):
            figures = tf.stack([losses[0], tf.cast(rows, tf.float32), tf.cast(has_next, tf.float32)])
            figures = tf.concat([figures, wishes], axis=0)
            if called.active is not None:
                figures = tf.concat([figures, tf.reshape(called.active, [-1])], axis=0)
            *dense_gradients, figures = sum_inside_step([*gradients[len(looked_up.rows) :], figures])
            reduced = time_mark([*dense_gradients, figures], devices.cpu, devices.compute)
            all_rows = tf.maximum(figures[1], 1.0)
            optimizer.learning_rate.assign(peak_rate * rate_factor)
            optimizer.apply_gradients([(g / all_rows, w) for g, w in zip(dense_gradients, weights)])
            applied = time_mark([weight.read_value() for weight in weights], devices.cpu, devices.compute)
            gradient_norm = tf.linalg.global_norm(dense_gradients) / all_rows
            active = None
            if called.active is not None and model.sparsity is not None:
                active = tf.reshape(figures[3 + WISHES :], tf.shape(called.active))
                model.sparsity.steer(active, figures[1])
        store.apply(looked_up, row_gradients)
        with tf.device(devices.cpu):
            marks = tf.stack([pulled, computed, reduced, applied])
            sparse_bytes = _bytes_exchanged(looked_up, tf.as_dtype(job.embeddings.transport))
        return StepResult(
            figures[0] / all_rows,
            tf.cast(figures[1], tf.int64),
            tf.cast(figures[2], tf.int64),
            tf.cast(figures[3 : 3 + WISHES], tf.int64),
            paths[0],
            marks,
            gradient_norm,
            sparse_bytes,
            active,
        )

    return train_step


def _values(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _bytes_exchanged(looked_up: Lookup, transport: tf.DType) -> tf.Tensor:
    """Of the requests once, and of the embeddings and their gradients in the type they travel in: int64 scalar."""
    requests = sum((tf.size(one, tf.int64) for of_ps in looked_up.requests for one in of_ps), tf.constant(0, tf.int64))
    rows = sum((tf.size(one, tf.int64) for one in looked_up.rows), tf.constant(0, tf.int64))
    return 8 * requests + 2 * transport.size * rows


def make_score_step(
    job: Job, model: tf_keras.Model, store: EmbeddingStore, devices: Devices, columns_spec: dict
) -> Callable[[dict], tf.Tensor]:
    """Returns `score(columns)`: logits, float32 `[batch]`; changes no table, unknown ids count as zeros."""

    @tf.function(input_signature=[columns_spec], autograph=False)
    def score_step(columns: dict) -> tf.Tensor:
        ids, dense = split_features(job, columns)
        nothing = StepInfo(tf.constant(0, tf.int64), tf.constant(0, tf.int64), tf.constant(0.0))
        looked_up = store.lookup(ids, nothing, training=False)
        vectors = looked_up.vectors(looked_up.rows)
        with tf.device(devices.compute):
            return tf.squeeze(model({**vectors, **dense}, training=False), axis=1)

    return score_step
