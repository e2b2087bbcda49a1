"""From what a client sends to the inputs of a model, in TensorFlow's own operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from models.build import Ranker
from ps_cluster.embedding.pooling import pool
from ps_cluster.job.resolve import LENGTH_SUFFIX, table_name
from ps_cluster.job.schema import DenseFeature, IdListFeature, Job


class Lookup(Protocol):
    """A table."""

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """From int64 `[ids]` to float32 `[ids, dim]`."""


def plain_logits(job: Job, tables: Mapping[str, Lookup], model: Ranker, served: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Logits `[batch, 1]` of inputs as `serving_signature` describes them."""
    inputs: dict[str, Any] = {}
    for feature in job.features:
        given = served[feature.name]
        if isinstance(feature, DenseFeature):
            inputs[feature.name] = given
            continue
        table = tables[table_name(feature)]
        if isinstance(feature, IdListFeature):
            lists = tf.RaggedTensor.from_tensor(given, lengths=served[feature.name + LENGTH_SUFFIX])
            if feature.max_length is not None:
                lists = lists[:, -feature.max_length :]
            inputs[feature.name] = pool(table.lookup(lists.flat_values), lists.row_splits, feature.pooling)
        else:
            inputs[feature.name] = table.lookup(given)
    return model(inputs, training=False)
