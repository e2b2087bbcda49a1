"""Optimiser of the dense weights."""

from __future__ import annotations

import tf_keras

from ps_cluster.job.schema import DenseOptimizer


def make_dense_optimizer(config: DenseOptimizer) -> tf_keras.optimizers.Optimizer:
    """A tf-keras optimiser; its learning rate is a variable that the step sets."""
    rate = config.learning_rate
    if config.name == "adamw":
        return tf_keras.optimizers.AdamW(rate, weight_decay=config.weight_decay, jit_compile=False)
    kinds = {
        "sgd": tf_keras.optimizers.SGD,
        "adagrad": tf_keras.optimizers.Adagrad,
        "adam": tf_keras.optimizers.Adam,
    }
    return kinds[config.name](rate, jit_compile=False)
