"""What a trained model computes for every row though it depends on weights alone is computed once, at export.

Each rule is an equation, exact but for the rounding of its products; it changes the weights of the exporter's own copy
of the model, whose layers then leave the step out:

- A table's projection, where its result is not wider: rows E of a table become E P, and so does the unknown vector.
  Pooling and padding are linear, so Σ (e P) = (Σ e) P.
- The scale of dot attention: (q (M / √d)) · e = ((q M) · e) / √d; a learned query is divided by √d itself.
- DeepFM with several dense fields: `ps_cluster.export.folded_deepfm`.
- RankMixer: `ps_cluster.export.folded_rankmixer`.
- A cross layer of DCN-v2 of a rank r above half the width: x (U V) + b = (x U) V + b, one product of width² in place of
  two of r · width.

No model has a BatchNorm, and none a LayerNorm beside those of RankMixer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from models.attention import DotWeights
from models.build import Ranker
from models.dcn import DCN
from models.deepfm import DeepFM
from models.features import Features
from models.mlp import Linear
from models.rankmixer import RankMixer
from ps_cluster.export.folded_deepfm import FoldedDeepFM
from ps_cluster.export.folded_rankmixer import fold_rankmixer

_DENSE_FIELDS = 4
"""From so many on, DeepFM's fields are fewer operations folded."""


@dataclass(frozen=True)
class Folded:
    """What was folded.

    Attributes:
        projections: by table, float32 `[table_dim, dim]`: what its rows are still to be multiplied by; the model does
            not do it any more.
        words: for a person, one line each.
    """

    projections: dict[str, np.ndarray]
    words: list[str]


def fold(model: Ranker) -> Folded:
    """Folds what can be folded in a model with trained weights; the model is another one then, with the same scores."""
    projections = _fold_projections(model.features)
    words = [f"{model.features.projections[name].name}: into the rows of table {name}" for name in projections]
    words += _fold_attention(model.features)
    if isinstance(model.body, RankMixer):
        words += fold_rankmixer(model.body)
    elif isinstance(model.body, DCN):
        words += _fold_crosses(model.body)
    elif isinstance(model.body, DeepFM) and sum(width == 1 for width in model.features.widths) >= _DENSE_FIELDS:
        model.body = FoldedDeepFM(model.body, model.features.widths)
        words.append(f"{model.body.name}: the products of dense fields into one")
    return Folded(projections, words)


def _fold_projections(features: Features) -> dict[str, np.ndarray]:
    projections = {
        name: projection.kernel.numpy()
        for name, projection in features.projections.items()
        if projection.dim <= projection.table_dim  # else the table would grow
    }
    features.specs = tuple(
        replace(spec, table=None, table_dim=None) if spec.table in projections else spec for spec in features.specs
    )
    return projections


def _fold_attention(features: Features) -> list[str]:
    words = []
    for attention in features.attentions.values():
        weights = attention.weigh
        if not isinstance(weights, DotWeights) or weights.scaled:
            continue
        held_by = attention.query if weights.metric is None else weights.metric
        assert held_by is not None
        held_by.assign(held_by / math.sqrt(weights.dim))
        weights.scaled = True
        words.append(f"{weights.name}: the scale into {held_by.name.partition(':')[0]}")
    return words


def _fold_crosses(body: DCN) -> list[str]:
    words = []
    for cross in body.crosses:
        if cross.reduce is None:
            continue
        width, rank = cross.reduce.kernel.shape
        if 2 * rank < width:
            continue
        whole = Linear(width, width, seed=0, name=f"{cross.name}/whole")
        whole.kernel.assign(cross.reduce.kernel.numpy().astype(np.float64) @ cross.linear.kernel.numpy())
        assert whole.bias is not None
        whole.bias.assign(cross.linear.bias)
        cross.reduce, cross.linear = None, whole
        words.append(f"{cross.name}: its two products into one")
    return words
