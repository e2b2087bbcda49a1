"""Initial values of weights: a function of (seed, weight name, shape) alone.

Nothing here reads TensorFlow's random state, so another weight, another order of construction or another
device changes no value. NumPy draws the numbers because TensorFlow's generators may differ between CPU and
GPU.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

Initial = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def generator(seed: int, name: str) -> np.random.Generator:
    """The stream of random numbers that belongs to one weight."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def glorot(fan_in: int, fan_out: int) -> Initial:
    """Uniform with variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010)."""
    limit = math.sqrt(6.0 / (fan_in + fan_out))
    return lambda random, shape: random.uniform(-limit, limit, shape)


def normal(deviation: float) -> Initial:
    """Normal with mean 0."""
    return lambda random, shape: random.normal(0.0, deviation, shape)


def zeros(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape)


def ones(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.ones(shape)


def identity(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.eye(shape[0], shape[1])


def add_weight(layer: Any, name: str, shape: Sequence[int], initial: Initial, seed: int) -> tf.Variable:
    """Create a trainable weight of a tf-keras layer, named `<layer name>/<name>`."""
    full_name = f"{layer.name}/{name}"

    def initializer(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
        values = initial(generator(seed, full_name), tuple(int(size) for size in shape))
        return tf.convert_to_tensor(values, dtype)

    return layer.add_weight(name=full_name, shape=tuple(shape), initializer=initializer, trainable=True)
