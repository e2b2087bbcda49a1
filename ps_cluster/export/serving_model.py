"""Tables and dense model of a checkpoint behind one function of the features, in plain TensorFlow, with our ops or with
TFRA's tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import tensorflow as tf

from models.build import build_model
from models.fused import choose
from ps_cluster.checkpoint.dense import load_dense
from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.embedding.table_saves import check_layout
from ps_cluster.errors import UserError
from ps_cluster.export.folding import Folded, fold
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.fused_inputs import fused_logits
from ps_cluster.export.hashed_table import HashedTable
from ps_cluster.export.ordered_rows import StoredRows, ordered, stored_blocks
from ps_cluster.export.plain_inputs import plain_logits
from ps_cluster.export.row_types import RowType
from ps_cluster.export.static_table import StaticTable
from ps_cluster.job.resolve import LENGTH_SUFFIX, inputs_of
from ps_cluster.job.schema import DenseFeature, IdListFeature, Job
from ps_cluster.train.session import groups_of


class ServingModel(tf.Module):
    """What is written as a SavedModel, without the rows of its tables: `fill` holds them in this process.

    Attributes:
        score: from inputs as `serving_signature` says to `logit` and `probability`, float32 `[batch]`.
        folded: what was folded, one line each.
        rows: by table, what its rows are made of.
    """

    def __init__(
        self,
        job: Job,
        checkpoint: Checkpoint,
        form: Form = "plain",
        row_type: RowType = "float32",
        *,
        folding: bool = True,
    ):
        super().__init__(name="ranker")
        fused = form == "ops" and choose(job.model).fused
        model = build_model(job.model, inputs_of(job), job.training.seed, fused=fused)
        load_dense(checkpoint, model)
        folded = fold(model) if folding else Folded({}, [])
        self.folded = tuple(folded.words)
        self.rows = stored_tables(job, checkpoint, folded)
        self._tables = _tables(
            form, row_type, self.rows, f"{job.name}/{checkpoint.step}-{checkpoint.manifest.crc32():08x}"
        )
        self._row_type: RowType = row_type
        logits = partial(fused_logits if form == "ops" else plain_logits, job, self._tables, model)

        def score(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            logit = tf.squeeze(logits(features), axis=1)
            return {"logit": logit, "probability": tf.sigmoid(logit)}

        self.score = tf.function(score, input_signature=[serving_signature(job)], autograph=False)
        # Of the model only what a score depends on is a part of the SavedModel.
        # In an order of their own: two exports then call them the same.
        variables = self.score.get_concrete_function().graph.variables
        self._variables = sorted(variables, key=lambda variable: variable.name)

    def fill(self, scratch: str) -> ServingModel:
        """Takes the rows into this process; `scratch` as of `ordered_rows.ordered`."""
        for name, table in self._tables.items():
            table.fill(ordered(self.rows[name], self._row_type, scratch, f"tables.{name}")[0])
        return self


def _tables(form: Form, row_type: RowType, rows: Mapping[str, StoredRows], version: str) -> dict[str, Any]:
    """Tables without rows. version: a name that no other export has."""
    if form == "tfra":
        from ps_cluster.export.tfra_table import TfraTable

        if row_type != "float32":
            raise UserError(f"--rows: expected float32 with the form tfra, found {row_type}")
        return {name: TfraTable(name, one.unknown_row()[0], f"{version}/{name}") for name, one in rows.items()}
    frozen = StaticTable if form == "plain" else HashedTable
    return {name: frozen(name, one.width, row_type) for name, one in rows.items()}


def stored_tables(job: Job, checkpoint: Checkpoint, folded: Folded) -> dict[str, StoredRows]:
    """The rows of a job's tables in a checkpoint, with what was folded into them.

    Raises:
        UserError: they are not of the job's layout.
    """
    found = {}
    for group in groups_of(job):
        for table, admission in zip(group.tables, group.layout.admissions):
            levels = checkpoint.levels(table)
            check_layout(levels[-1], group.layout)
            found[table] = StoredRows(
                stored_blocks(checkpoint, table),
                group.layout.dim,
                0.0 if admission.kind == "none" else admission.cold_value,
                folded.projections.get(table),
                sum(shard.rows for level in levels for shard in level.table.shards),
            )
    return found


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
