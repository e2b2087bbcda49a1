"""How many experts stay active: a penalty on their gates whose strength follows what is measured.

To a step's loss is added λ times the mean gate (over rows, layers, tokens and experts), and after the step λ is
multiplied by a factor when too large a share of gates was above 0, else divided by it (ReMoE, arXiv 2412.14711).

Judged is not the share itself but where it is going: share + 2 · (share - its running mean over about ten steps).
ReMoE, for runs of many thousand steps, does without: in short ones λ then grows until gates that began near 1 arrive at
0 together, far below the wanted share; and an expert without rows has no gradient that could bring it back.

Both λ and the running mean are weights: a checkpoint keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tf_keras

LEAST, MOST = 1e-6, 1e6
"""Between these λ stays: below it moves nothing, and would be long in coming back."""

_AHEAD, _MEAN = 2.0, 0.1
"""How much of its trend is added to the share; weight of the newest share in the running mean."""


class TrainingCall(NamedTuple):
    """What a ranker gives while it is trained.

    Attributes:
        logits: float32 `[batch, paths]`. The loss is the mean of the paths' losses; the first path is what inference
            will compute.
        penalty: float32 scalar, to be added to the sum of the rows' losses; None: nothing is.
        active: float32 `[layers, tokens, experts]`, in how many rows each gate was above 0; None without experts.
            Summed over all workers it is what `SparsityControl.steer` wants.
    """

    logits: tf.Tensor
    penalty: tf.Tensor | None = None
    active: tf.Tensor | None = None


class SparsityControl(tf_keras.layers.Layer):
    """Holds λ.

    Args:
        target: Share of gates that are to be above 0.
        start: λ before the first step.
        factor: By how much λ changes in a step; above 1.
    """

    def __init__(self, target: float, start: float, factor: float, *, name: str) -> None:
        super().__init__(name=name)
        self.target = target
        self.factor = factor
        self.strength = self.add_weight(
            name=f"{name}/strength", shape=(), initializer=tf_keras.initializers.Constant(start), trainable=False
        )
        self.recent = self.add_weight(name=f"{name}/recent", shape=(), initializer="ones", trainable=False)
        self.built = True

    def penalty(self, gates: Sequence[tf.Tensor]) -> tf.Tensor:
        """λ times the mean gate of a row, summed over the rows; gates: `[T, batch, E]` of each layer."""
        means = [tf.reduce_mean(of_layer, axis=[0, 2]) for of_layer in gates]
        return self.strength * tf.reduce_sum(tf.add_n(means)) / len(means)

    def steer(self, active: tf.Tensor, rows: tf.Tensor) -> None:
        """After a step. active: `TrainingCall.active` of all workers together; rows: float32 scalar, of all."""
        # A step without rows says nothing.
        share = tf.where(rows > 0, tf.reduce_mean(active) / tf.maximum(rows, 1.0), self.recent)
        trend = share - self.recent
        direction = tf.where(rows > 0, tf.sign(share + _AHEAD * trend - self.target), 0.0)
        self.recent.assign_add(_MEAN * trend)
        self.strength.assign(tf.clip_by_value(self.strength * tf.pow(self.factor, direction), LEAST, MOST))

    def call(self, *_: Any) -> None:
        raise TypeError(f"{self.name}: not a layer to be called")


def count_active(gates: Sequence[tf.Tensor]) -> tf.Tensor:
    """In how many rows each gate is above 0: float32 `[layers, T, E]`, of `[T, batch, E]` each."""
    return tf.stack([tf.reduce_sum(tf.cast(of_layer > 0, tf.float32), axis=1) for of_layer in gates])
