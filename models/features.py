"""Every input as one matrix `[batch, width]`: the step between named inputs and a model's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from models.attention import TargetAttention
from models.inputs import InputSpec
from models.projection import Projection


class Features(tf_keras.layers.Layer):
    """Turns the values of the inputs into matrices `[batch, widths[i]]`, in the order of the inputs.

    A vector stays as it is, a sequence is attended to, a dense number becomes a column after
    `dense_transform`. What comes from a table of several widths is projected first.

    `signed_log` maps a number x to sign(x) · log(1 + |x|): counts, prices and durations over many orders of
    magnitude come within one, shares and small numbers stay nearly themselves. It has no state: a model that
    kept a running mean would train differently on every worker, and batch statistics would let rows of a
    batch see each other.
    """

    def __init__(
        self,
        inputs: Sequence[InputSpec],
        *,
        dense_transform: str,
        attention: str,
        attention_hidden: int,
        seed: int,
        name: str = "features",
    ) -> None:
        super().__init__(name=name)
        self.specs = tuple(inputs)
        self.widths = [spec.dim for spec in inputs]
        self.dense_transform = dense_transform
        self.projections: dict[str, Projection] = {}
        for spec in inputs:
            if spec.table is not None and spec.table not in self.projections:
                assert spec.table_dim is not None
                self.projections[spec.table] = Projection(
                    spec.table_dim, spec.dim, seed=seed, name=f"{name}/{spec.table}/projection"
                )
        self.attentions = {}
        for spec in inputs:
            if spec.kind == "sequence":
                self.attentions[spec.name] = TargetAttention(
                    spec.dim,
                    attention,
                    hidden=attention_hidden,
                    learned_query=spec.query is None,
                    seed=seed,
                    name=f"{name}/{spec.name}/attention",
                )
        self.built = True

    def call(self, values: Mapping[str, Any]) -> list[tf.Tensor]:
        missing = [spec.name for spec in self.specs if spec.name not in values]
        if missing:
            raise ValueError(f"model inputs: expected {', '.join(missing)}, found {', '.join(values)}")
        values = {spec.name: self.projected(spec, values[spec.name]) for spec in self.specs}
        return [self._matrix(spec, values) for spec in self.specs]

    def projected(self, spec: InputSpec, value: Any) -> Any:
        """Where the input's values are of another width than the model wants: brought to it."""
        if spec.table is None:
            return value
        if spec.kind == "sequence":
            elements, mask = value
            return self.projections[spec.table](elements), mask
        return self.projections[spec.table](value)

    def _matrix(self, spec: InputSpec, values: Mapping[str, Any]) -> tf.Tensor:
        value = values[spec.name]
        if spec.kind == "dense":
            column = value[:, tf.newaxis]
            return signed_log(column) if self.dense_transform == "signed_log" else column
        if spec.kind == "vector":
            return tf.ensure_shape(value, [None, spec.dim])
        elements, mask = value
        elements = tf.ensure_shape(elements, [None, None, spec.dim])
        query = None if spec.query is None else values[spec.query]
        return self.attentions[spec.name](elements, mask, query)


def signed_log(values: tf.Tensor) -> tf.Tensor:
    """sign(x) · log(1 + |x|), elementwise."""
    return tf.sign(values) * tf.math.log1p(tf.abs(values))
