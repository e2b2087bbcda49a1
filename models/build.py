"""From a model's configuration and its inputs to a built tf-keras model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import tensorflow as tf
import tf_keras
from pydantic import TypeAdapter

from models.check import check_model
from models.config import DCNConfig, DeepFMConfig, ModelConfig, RankMixerConfig
from models.dcn import DCN
from models.deepfm import DeepFM
from models.features import Features
from models.inputs import InputSpec
from models.rankmixer import RankMixer
from models.sparsity import SparsityControl, TrainingCall


class Ranker(tf_keras.Model):
    """Inputs by name to the logit of a click: `features` makes matrices of them, `body` logits of those.

    Call with `{name: value}` as `InputSpec` describes values; returns float32 `[batch, 1]`. Names beyond the
    declared inputs are not looked at. `description` holds `build_model`'s arguments as plain data.
    """

    def __init__(self, features: Features, body: tf_keras.layers.Layer, description: dict[str, Any], name: str) -> None:
        super().__init__(name=name)
        # As text: Keras would wrap a dictionary and track it as a part of the model.
        self._description = json.dumps(description)
        self.features = features
        self.body = body
        self.built = True

    def call(self, values: Mapping[str, Any], training: Any = None) -> tf.Tensor:
        return self.body(self.features(values), training=training)

    def training_call(self, values: Mapping[str, Any]) -> TrainingCall:
        """As a call with `training`, and all else that a step of training needs."""
        matrices = self.features(values)
        if isinstance(self.body, RankMixer):
            return self.body.training_call(matrices)
        return TrainingCall(self.body(matrices, training=True))

    @property
    def sparsity(self) -> SparsityControl | None:
        """What holds the share of active experts; None without experts."""
        return self.body.sparsity if isinstance(self.body, RankMixer) else None

    def get_config(self) -> dict[str, Any]:
        return json.loads(self._description)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Ranker:
        return build_model(
            TypeAdapter(ModelConfig).validate_python(config["config"]),
            [InputSpec(**spec) for spec in config["inputs"]],
            config["seed"],
            config["dropout_stream"],
        )


def build_model(
    config: ModelConfig, inputs: Sequence[InputSpec], seed: int, dropout_stream: int = 0, *, fused: bool = False
) -> Ranker:
    """The model that `config` describes, with all its weights.

    Args:
        config: A model section of a job file.
        inputs: What the model will be called with. Their order matters to RankMixer without `groups`.
        seed: Initial values of the weights depend on it, on a weight's name and on nothing else.
        dropout_stream: Number of the worker: those of one job have equal weights, different masks.
        fused: Whether RankMixer's blocks are the fused op (`models.fused.choose`): a model that is to be exported, or
            to run without the op library, is built without it.

    Raises:
        ValueError: Configuration and inputs do not fit; the message holds every line of `check_model`.
    """
    problems = check_model(config, inputs)
    if problems:
        raise ValueError("\n".join(problems))
    features = Features(
        inputs,
        dense_transform=config.dense_transform,
        attention=config.attention,
        attention_hidden=config.attention_hidden,
        seed=seed,
    )
    description = {
        "config": config.model_dump(mode="json"),
        "inputs": [asdict(spec) for spec in inputs],
        "seed": seed,
        "dropout_stream": dropout_stream,
    }
    return Ranker(features, _body(config, inputs, seed, dropout_stream, fused), description, name=config.name)


def _body(
    config: ModelConfig, inputs: Sequence[InputSpec], seed: int, stream: int, fused: bool
) -> RankMixer | DeepFM | DCN:
    widths = [spec.dim for spec in inputs]
    if isinstance(config, RankMixerConfig):
        index = {spec.name: position for position, spec in enumerate(inputs)}
        groups = None if config.groups is None else [[index[name] for name in g] for g in config.groups]
        return RankMixer(widths, config, groups, fused=fused, seed=seed, stream=stream)
    if isinstance(config, DeepFMConfig):
        return DeepFM(
            inputs,
            hidden=config.hidden,
            fm_dim=config.fm_dim,
            dropout=config.dropout,
            seed=seed,
            stream=stream,
        )
    if isinstance(config, DCNConfig):
        return DCN(
            widths,
            cross_layers=config.cross_layers,
            cross_rank=config.cross_rank,
            hidden=config.hidden,
            dropout=config.dropout,
            seed=seed,
            stream=stream,
        )
    raise TypeError(f"expected a model configuration, found {type(config).__name__}")
