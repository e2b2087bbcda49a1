"""A SavedModel that plain TensorFlow serves: no TFRA, none of our ops, inputs by feature name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from models.build import build_model
from ps_cluster.checkpoint.dense import load_dense
from ps_cluster.checkpoint.finding import Checkpoint, newest_checkpoint
from ps_cluster.checkpoint.storage import load_file_systems
from ps_cluster.embedding.groups import TableGroup
from ps_cluster.embedding.pooling import pool
from ps_cluster.embedding.table_saves import check_layout
from ps_cluster.errors import UserError
from ps_cluster.export.static_table import StaticTable, stored_blocks
from ps_cluster.job.resolve import LENGTH_SUFFIX, JobFile, inputs_of
from ps_cluster.job.schema import DenseFeature, IdListFeature, Job
from ps_cluster.train.session import groups_of
from ps_cluster.train.trained_job import check_as_trained

TRAINING = os.path.join("assets.extra", "training.json")
"""In an export: which step of the training it holds, and by which rates the training rows were sampled (null: not at
all). The logits need no correction: the training has undone what sampling did to the odds."""


class ServingModel(tf.Module):
    """Tables and dense model of a checkpoint behind one function of the features."""

    def __init__(self, job: Job, checkpoint: Checkpoint):
        super().__init__(name="ranker")
        self._job = job
        groups = groups_of(job)
        self._tables: dict[str, StaticTable] = {}
        for group in groups:
            for table, admission in zip(group.tables, group.layout.admissions):
                check_layout(checkpoint.levels(table)[-1], group.layout)
                unknown = 0.0 if admission.kind == "none" else admission.cold_value
                blocks = stored_blocks(checkpoint, table)
                self._tables[table] = StaticTable(blocks, group.layout.dim, unknown, table)
        model = build_model(job.model, inputs_of(job), job.training.seed)
        load_dense(checkpoint, model)
        self._dense_weights = model.weights
        self.score = tf.function(_scorer(job, groups, self._tables, model), input_signature=[serving_signature(job)])


def serving_signature(job: Job) -> dict[str, tf.TensorSpec]:
    """Inputs by feature name: an id int64 `[batch]`; a list int64 `[batch, length]`, padded with anything, beside its
    true lengths int64 `[batch]` under NAME_length; a dense value float32 `[batch]`."""
    signature: dict[str, tf.TensorSpec] = {}
    for feature in job.features:
        if isinstance(feature, DenseFeature):
            signature[feature.name] = tf.TensorSpec([None], tf.float32, feature.name)
        elif isinstance(feature, IdListFeature):
            length = feature.name + LENGTH_SUFFIX  # of no other feature: the job file's check sees to it
            signature[feature.name] = tf.TensorSpec([None, None], tf.int64, feature.name)
            signature[length] = tf.TensorSpec([None], tf.int64, length)
        else:
            signature[feature.name] = tf.TensorSpec([None], tf.int64, feature.name)
    return signature


def export_saved_model(job_file: JobFile, parent: str | None = None, tell: Callable[[str], None] | None = None) -> str:
    """Writes the newest checkpoint as the next numbered version below `parent`; returns the version's folder.

    parent: by default OUTPUT/export. tell: as of `newest_checkpoint`. A version appears whole (written beside, then
    renamed), as TF Serving expects.
    """
    load_file_systems(job_file.checkpoints)
    checkpoint = newest_checkpoint(job_file.checkpoints, tell=tell)
    check_as_trained(job_file, checkpoint.manifest.trained)
    parent = os.path.join(job_file.output, "export") if parent is None else parent
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise UserError(f"--to: expected a folder that can be made, found {parent!r}: {error.strerror}") from None
    module = ServingModel(job_file.job, checkpoint)
    version = max((int(name) for name in os.listdir(parent) if name.isdigit()), default=0) + 1
    folder = os.path.join(parent, str(version))
    beside = os.path.join(parent, f".{version}.{os.getpid()}.part")
    try:
        tf.saved_model.save(module, beside, signatures={"serving_default": module.score})
        _describe(checkpoint, os.path.join(beside, TRAINING))
        os.rename(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _describe(checkpoint: Checkpoint, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"step": checkpoint.step, "sampling": checkpoint.manifest.sampling}, file, indent=1)
        file.write("\n")


def _scorer(job: Job, groups: list[TableGroup], tables: dict[str, StaticTable], model: tf_keras.Model):
    table_of = {use.name: group.tables[use.table] for group in groups for use in group.features}

    def score(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        inputs: dict = {}
        for feature in job.features:
            given = features[feature.name]
            if isinstance(feature, DenseFeature):
                inputs[feature.name] = given
            elif isinstance(feature, IdListFeature):
                lists = tf.RaggedTensor.from_tensor(given, lengths=features[feature.name + LENGTH_SUFFIX])
                if feature.max_length is not None:
                    lists = lists[:, -feature.max_length :]
                vectors = tables[table_of[feature.name]].lookup(lists.flat_values)
                inputs[feature.name] = pool(vectors, lists.row_splits, feature.pooling)
            else:
                inputs[feature.name] = tables[table_of[feature.name]].lookup(given)
        logit = tf.squeeze(model(inputs, training=False), axis=1)
        return {"logit": logit, "probability": tf.sigmoid(logit)}

    return score
