"""The two kinds of SavedModels of the sharded form: one that has rows of all tables, one that scores their vectors."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from models.build import build_model
from ps_cluster.checkpoint.dense import load_dense
from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.export.folding import fold
from ps_cluster.export.ordered_rows import StoredRows
from ps_cluster.export.plain_inputs import plain_logits
from ps_cluster.export.row_types import RowType
from ps_cluster.export.serving_model import serving_signature, stored_tables
from ps_cluster.export.static_table import StaticTable
from ps_cluster.job.resolve import inputs_of
from ps_cluster.job.schema import Job


class ShardModel(tf.Module):
    """Rows of all tables, in plain TensorFlow.

    Attributes:
        score: from ids by table, int64 `[n]`, to their vectors by table, float32 `[n, width]`.
    """

    def __init__(self, rows: Mapping[str, StoredRows], row_type: RowType):
        super().__init__(name="shard")
        self._tables = {table: StaticTable(table, stored.width, row_type) for table, stored in rows.items()}

        def look_up(ids: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {table: self._tables[table].lookup(of_table) for table, of_table in ids.items()}

        self.signature = {table: tf.TensorSpec([None], tf.int64, table) for table in rows}
        self.score = tf.function(look_up, input_signature=[self.signature], autograph=False)


class DenseModel(tf.Module):
    """What scores vectors.

    Attributes:
        score: from inputs as `signature` says to `logit` and `probability`, float32 `[batch]`. They are those of a
            SavedModel in one piece, with places among the vectors of a table where ids stand there.
        inputs: by table, the input of its vectors, float32 `[n, width]`.
        folded: what was folded, one line each.
        rows: by table, what its rows are made of.
    """

    def __init__(self, job: Job, checkpoint: Checkpoint):
        super().__init__(name="dense")
        model = build_model(job.model, inputs_of(job), job.training.seed, fused=False)
        load_dense(checkpoint, model)
        folded = fold(model)
        self.folded = tuple(folded.words)
        self.rows = stored_tables(job, checkpoint, folded)
        self.signature = serving_signature(job)
        self.inputs = {table: _free_name(f"{table}_vectors", self.signature) for table in self.rows}
        for table, name in self.inputs.items():
            self.signature[name] = tf.TensorSpec([None, self.rows[table].width], tf.float32, name)

        def score(served: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            tables = {table: _Vectors(served[name]) for table, name in self.inputs.items()}
            logit = tf.squeeze(plain_logits(job, tables, model, served), axis=1)
            return {"logit": logit, "probability": tf.sigmoid(logit)}

        self.score = tf.function(score, input_signature=[self.signature], autograph=False)
        # In an order of their own: two exports then call them the same.
        variables = self.score.get_concrete_function().graph.variables
        self._variables = sorted(variables, key=lambda variable: variable.name)


class _Vectors:
    """Vectors that are looked up by where they stand."""

    def __init__(self, vectors: tf.Tensor):
        self._vectors = vectors

    def lookup(self, places: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._vectors, places)


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name
