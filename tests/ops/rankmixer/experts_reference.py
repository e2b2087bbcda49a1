"""Sparse experts and all their gradients in float64 NumPy, from the formula of the op's registration."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ops.rankmixer_block import BlockOptions
from tests.ops.rankmixer.reference import Array, Result, activate, dropout_factors

INPUTS = ("tokens", "gates", "w1", "b1", "w2", "b2")


class Options(NamedTuple):
    """Of `ops.rankmixer_experts.sparse_experts`."""

    activation: str = "gelu"
    dropout: float = 0.0


def experts(inputs: dict[str, Array], options: Options, dy: Array, seed: tuple[int, int] = (0, 0)) -> Result:
    """The gated sum of `inputs`, all of float64, batch first, and the gradients for the gradient `dy` of its result."""
    tokens, gates = inputs["tokens"], inputs["gates"]
    batch, count, _ = tokens.shape
    number, hidden = gates.shape[2], inputs["w2"].shape[2]
    dropped = BlockOptions(activation=options.activation, dropout=options.dropout)
    factors = dropout_factors(dropped, seed, (batch, count * number, hidden))
    y = np.zeros_like(tokens)
    d = {name: np.zeros_like(inputs[name]) for name in INPUTS}
    for token in range(count):
        for expert in range(number):
            rows = np.flatnonzero(gates[:, token, expert])
            s, g, dz = tokens[rows, token], gates[rows, token, expert, None], dy[rows, token]
            w1, b1, w2, b2 = (inputs[name][token, expert] for name in ("w1", "b1", "w2", "b2"))
            plain, slopes = activate(s @ w1 + b1, options.activation)
            keep = factors[rows, token * number + expert]
            h = plain * keep
            z = h @ w2 + b2
            y[rows, token] += g * z
            d["gates"][rows, token, expert] = (dz * z).sum(-1)
            dz = dz * g
            d["w2"][token, expert], d["b2"][token, expert] = h.T @ dz, dz.sum(0)
            dh = (dz @ w2.T) * keep
            da = np.concatenate([dh * slope for slope in slopes], axis=-1)
            d["w1"][token, expert], d["b1"][token, expert] = s.T @ da, da.sum(0)
            d["tokens"][rows, token] += da @ w1.T
    return Result(y, d)


def example(
    batch: int,
    tokens: int,
    dim: int,
    experts: int,
    hidden: int,
    options: Options,
    *,
    active: float = 0.4,
    seed: int = 0,
) -> tuple[dict[str, Array], Array]:
    """Inputs and dy of natural size, float64 but exact in float32; a share `active` of the gates is not 0."""
    rng = np.random.default_rng(seed)
    inner = 2 * hidden if options.activation == "swiglu" else hidden

    def normal(scale: float, *shape: int) -> Array:
        return (rng.standard_normal(shape) * scale).astype(np.float32).astype(np.float64)

    gates = rng.uniform(0.2, 2.0, [batch, tokens, experts]) * (rng.random([batch, tokens, experts]) < active)
    inputs = {
        "tokens": normal(1.0, batch, tokens, dim),
        "gates": gates.astype(np.float32).astype(np.float64),
        "w1": normal(1.0 / math.sqrt(dim), tokens, experts, dim, inner),
        "b1": normal(0.1, tokens, experts, inner),
        "w2": normal(1.0 / math.sqrt(hidden), tokens, experts, hidden, dim),
        "b2": normal(0.1, tokens, experts, dim),
    }
    return inputs, normal(1.0, batch, tokens, dim)
