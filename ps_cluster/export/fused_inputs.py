"""From what a client sends to what a model's body reads of it, in one look-up of all features.

The look-up writes every vector where the body wants it: side by side, or for RankMixer as the parts that its tokens
are made of, with their padding. What is computed of a look-up first (a list that is attended to, a vector that is
projected) is looked up by itself and given to the one for all, which puts it in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from models.build import Ranker
from models.deepfm import DeepFM
from models.inputs import InputSpec
from models.rankmixer import RankMixer
from ops.lookup_concat import Arrangement, FrozenTable, GivenInput, IdInput, Segment, lookup_concat, lookup_sequence
from ps_cluster.export.folded_deepfm import FoldedDeepFM
from ps_cluster.export.hashed_table import HashedTable
from ps_cluster.job.resolve import LENGTH_SUFFIX, table_name
from ps_cluster.job.schema import DenseFeature, IdListFeature, Job


def fused_logits(
    job: Job, tables: Mapping[str, HashedTable], model: Ranker, served: Mapping[str, tf.Tensor]
) -> tf.Tensor:
    """Logits `[batch, 1]` of inputs as `serving_signature` describes them; `model` may be folded."""
    return _Fused(job, tables, model, served).logits()


class _Fused:
    """One trace of the function that scores."""

    def __init__(self, job: Job, tables: Mapping[str, HashedTable], model: Ranker, served: Mapping[str, tf.Tensor]):
        self._features = {feature.name: feature for feature in job.features}
        self._model = model
        self._served = served
        self._numbers = {name: number for number, name in enumerate(tables)}
        self._tables: list[FrozenTable] = [table.read() for table in tables.values()]

    def logits(self) -> tf.Tensor:
        specs = self._model.features.specs
        looked_up = [spec.name for spec in specs if spec.kind == "vector" and spec.table is None]
        given = {spec.name: self._computed(spec) for spec in specs if spec.name not in looked_up}
        numbers = {name: number for number, name in enumerate([*looked_up, *given])}
        segments, parts, width = _segments(self._model, [numbers[spec.name] for spec in specs])
        logs = self._model.features.dense_transform == "signed_log"
        dense = {spec.name for spec in specs if spec.kind == "dense"}
        matrix = self._looked_up(
            looked_up, segments, parts, width, given, tuple(GivenInput(name, logs and name in dense) for name in given)
        )
        body = self._model.body
        if isinstance(body, RankMixer):
            return body(matrix, training=False)
        row = tf.squeeze(matrix, axis=0)
        # DeepFM wants its fields apart.
        return body(
            tf.split(row, self._model.features.widths, 1) if isinstance(body, DeepFM) else [row], training=False
        )

    def _computed(self, spec: InputSpec) -> tf.Tensor:
        """A column, or the vectors of an input that are not just looked up; float32 `[batch]` or `[batch, dim]`."""
        if spec.kind == "dense":
            return self._served[spec.name]
        features = self._model.features
        if spec.kind == "vector":
            return features.projected(spec, self._vectors(spec))
        feature = self._features[spec.name]
        assert isinstance(feature, IdListFeature)
        elements, mask = lookup_sequence(
            spec.name,
            self._served[spec.name],
            self._served[spec.name + LENGTH_SUFFIX],
            self._tables[self._numbers[table_name(feature)]],
            feature.max_length or 0,
        )
        query = None
        if spec.query is not None:
            asking = next(one for one in features.specs if one.name == spec.query)
            query = features.projected(asking, self._vectors(asking))
        elements, mask = features.projected(spec, (elements, mask))
        return features.attentions[spec.name](elements, mask, query)

    def _vectors(self, spec: InputSpec) -> tf.Tensor:
        """One feature's vectors as its table has them, float32 `[batch, dim]`."""
        dim = spec.dim if spec.table_dim is None else spec.table_dim
        return self._looked_up([spec.name], [Segment(0, 0, dim, 0, 0)], 1, dim)[0]

    def _looked_up(
        self,
        names: Sequence[str],
        segments: Sequence[Segment],
        parts: int,
        width: int,
        given: Mapping[str, tf.Tensor] | None = None,
        given_inputs: tuple[GivenInput, ...] = (),
    ) -> tf.Tensor:
        """Float32 `[parts, batch, width]`."""
        ids = [one for one in map(self._features.__getitem__, names) if not isinstance(one, DenseFeature)]
        used = sorted({self._numbers[table_name(feature)] for feature in ids})
        inputs = []
        for feature in ids:
            table = used.index(self._numbers[table_name(feature)])
            if isinstance(feature, IdListFeature):
                inputs.append(IdInput(feature.name, table, feature.pooling, feature.max_length or 0))
            else:
                inputs.append(IdInput(feature.name, table))
        return lookup_concat(
            Arrangement(tuple(inputs), given_inputs, tuple(segments), parts, width),
            [self._served[name] for name in names],
            [self._served[one.name + LENGTH_SUFFIX] for one in ids if isinstance(one, IdListFeature)],
            list((given or {}).values()),
            [self._tables[number] for number in used],
        )


def _segments(model: Ranker, numbers: Sequence[int]) -> tuple[list[Segment], int, int]:
    """Where the model's inputs stand in the matrix, number i being that of input i; its parts, their width."""
    if isinstance(model.body, RankMixer):
        tokenizer = model.body.tokenizer
        segments = [Segment(numbers[feature], *rest) for feature, *rest in tokenizer.pieces()]
        return segments, tokenizer.tokens, max(tokenizer.part_widths)
    widths = model.features.widths
    segments, column = [], 0
    for position in model.body.order if isinstance(model.body, FoldedDeepFM) else range(len(widths)):
        segments.append(Segment(numbers[position], 0, widths[position], 0, column))
        column += widths[position]
    return segments, 1, column
