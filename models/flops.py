"""Floating-point operations of a ranker, counted from the shapes of its layers.

Only products of matrices count, two operations for each multiplication and addition; sums, norms, activations and
look-ups do not. Experts count as if each were computed for every row. Training counts as three times the forward pass:
backward has two products for each one. What is recomputed or done on padding of sequences counts nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from models.config import DeepFMConfig, ModelConfig, RankMixerConfig
from models.deepfm import default_fm_dim
from models.inputs import InputSpec
from models.tokenizer import even_cut

TRAINING = 3
"""Training's operations over the forward pass's."""


@dataclass(frozen=True)
class Flops:
    """Operations of a forward pass: `per_row`, and beside it of each element of a row's sequence, by input."""

    per_row: float
    per_element: Mapping[str, float] = field(default_factory=dict)

    def of(self, rows: float, elements: Mapping[str, float]) -> float:
        """Operations for so many rows with so many elements of sequences altogether, by input."""
        return self.per_row * rows + sum(flops * elements[name] for name, flops in self.per_element.items())


def forward_flops(config: ModelConfig, inputs: Sequence[InputSpec], *, training: bool = False) -> Flops:
    """Operations of a forward pass; `training`: as it is in training, where a model with a dense router has two."""
    per_row = _body(config, inputs, training)
    per_element: dict[str, float] = {}
    for spec in inputs:
        projection = 2.0 * (spec.table_dim or 0) * spec.dim
        if spec.kind == "sequence":
            of_row, of_element = _attention(config, spec)
            per_row += of_row
            per_element[spec.name] = of_element + projection
        else:
            per_row += projection
    return Flops(per_row, per_element)


def _attention(config: ModelConfig, spec: InputSpec) -> tuple[float, float]:
    """Of a row, and of each element: the weights of the elements, then their weighted sum."""
    dim, hidden = spec.dim, config.attention_hidden
    if config.attention == "din":
        return 2.0 * dim * hidden, 2.0 * (2 * dim * hidden + hidden) + 2.0 * dim
    return (2.0 * dim * dim if spec.query is not None else 0.0), 4.0 * dim


def _body(config: ModelConfig, inputs: Sequence[InputSpec], training: bool) -> float:
    if isinstance(config, RankMixerConfig):
        return _rankmixer(config, inputs, training)
    width = sum(spec.dim for spec in inputs)
    deep = _chain([width, *config.hidden])
    if isinstance(config, DeepFMConfig):
        return deep + 2.0 * width + _fm_projections(config, inputs) + (2.0 * config.hidden[-1] if config.hidden else 0)
    rank = config.cross_rank
    cross = 2.0 * width * (width if rank is None else 2 * rank)
    return deep + config.cross_layers * cross + 2.0 * (width + (config.hidden[-1] if config.hidden else 0))


def _chain(widths: Sequence[int]) -> float:
    return sum(2.0 * one * other for one, other in zip(widths, widths[1:]))


def _fm_projections(config: DeepFMConfig, inputs: Sequence[InputSpec]) -> float:
    fm_dim = config.fm_dim or default_fm_dim(inputs)
    return sum(2.0 * spec.dim * fm_dim for spec in inputs if spec.kind == "dense" or spec.dim != fm_dim)


def _rankmixer(config: RankMixerConfig, inputs: Sequence[InputSpec], training: bool) -> float:
    width_of = {spec.name: spec.dim for spec in inputs}
    if config.groups is None:
        parts = even_cut(sum(width_of.values()), config.tokens)
    else:
        parts = [sum(width_of[name] for name in group) for group in config.groups]
    matrices = 3 if config.activation == "swiglu" else 2
    network = 2.0 * matrices * config.dim * config.hidden
    paths = 1
    if config.experts is not None:
        # The router, and the gated sum of the experts' second biases.
        network += 4.0 * config.dim * config.experts.count
        paths = 2 if training and config.experts.dense_training else 1
    tokenizer = 2.0 * config.tokens * max(parts) * config.dim
    return tokenizer + paths * (config.layers * config.tokens * network + 2.0 * config.dim)
