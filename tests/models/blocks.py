"""RankMixer blocks with random weights, for tests."""

from __future__ import annotations

import numpy as np
import tf_keras

from models.rankmixer_block import RankMixerBlock
from ops.rankmixer_block import BlockOptions

EPSILON = 1e-6


def weight_shapes(tokens: int, dim: int, hidden: int, options: BlockOptions) -> dict[str, tuple[int, ...]]:
    """Shapes by name, in the order of the layer."""
    inner = 2 * hidden if options.activation == "swiglu" else hidden
    shapes = {
        "gamma1": (dim,),
        "beta1": (dim,),
        "w1": (tokens, dim, inner),
        "b1": (tokens, inner),
        "w2": (tokens, hidden, dim),
        "b2": (tokens, dim),
        "gamma2": (dim,),
        "beta2": (dim,),
    }
    without = ("beta1", "beta2") if options.norm == "pre_rms" else ()
    return {name: shape for name, shape in shapes.items() if name not in without}


def random_weights(
    tokens: int, dim: int, hidden: int, options: BlockOptions, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    return {name: rng.normal(size=shape) for name, shape in weight_shapes(tokens, dim, hidden, options).items()}


def block_with(
    weights: dict[str, np.ndarray], dtype: str, options: BlockOptions, *, fused: bool = False
) -> RankMixerBlock:
    tokens, hidden, dim = weights["w2"].shape
    block = RankMixerBlock(
        tokens, dim, expansion=hidden // dim, options=options, fused=fused, seed=0, name="block", dtype=dtype
    )
    calls = [np.zeros([], np.int64)] if options.dropout else []
    block.set_weights([*weights.values(), *calls])
    return block


def named(layer: tf_keras.layers.Layer) -> dict[str, np.ndarray]:
    """Weights of a layer in float64, by their names behind the layer's own."""
    return {
        weight.name.removeprefix(f"{layer.name}/").removesuffix(":0"): weight.numpy().astype(np.float64)
        for weight in layer.weights
    }
