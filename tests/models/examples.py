"""Inputs of every kind and a configuration of every model, small."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from models.config import DCNConfig, DeepFMConfig, RankMixerConfig
from models.inputs import InputSpec

INPUTS = [
    InputSpec("user", "vector", 8),
    InputSpec("item", "vector", 8),
    InputSpec("history", "sequence", 8, query="item"),
    InputSpec("genres", "sequence", 4),
    InputSpec("age", "dense", 1),
    InputSpec("price", "dense", 1),
]

CONFIGS = [
    RankMixerConfig(name="rankmixer", tokens=4, dim=16, layers=2, expansion=2),
    RankMixerConfig(
        name="rankmixer",
        tokens=3,
        dim=12,
        layers=1,
        attention="din",
        dropout=0.2,
        groups=[["user", "age"], ["item", "genres", "price"], ["history", "item"]],
    ),
    RankMixerConfig(name="rankmixer", tokens=4, dim=16, layers=2, expansion=2, norm="pre_rms", activation="swiglu"),
    RankMixerConfig(
        name="rankmixer", tokens=4, dim=16, layers=1, expansion=2, dropout=0.1, experts={"count": 4, "hidden": 6}
    ),
    DeepFMConfig(name="deepfm", hidden=[16], fm_dim=6, dropout=0.2),
    DCNConfig(name="dcn", hidden=[16], cross_rank=3, attention="din", dense_transform="none"),
]


def values_for(batch: int, length: int, seed: int = 0) -> dict[str, Any]:
    """Values of all `INPUTS`; sequences of `length` with about half of the elements real."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> tf.Tensor:
        return tf.constant(rng.normal(size=shape), tf.float32)

    values: dict[str, Any] = {}
    for spec in INPUTS:
        if spec.kind == "vector":
            values[spec.name] = normal(batch, spec.dim)
        elif spec.kind == "sequence":
            mask = tf.constant(rng.random((batch, length)) < 0.5)
            values[spec.name] = (normal(batch, length, spec.dim), mask)
        else:
            values[spec.name] = normal(batch)
    return values
