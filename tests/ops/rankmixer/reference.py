"""The fused block and all its gradients in float64 NumPy, from the formulas of the op's registration."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ops.rankmixer_block import BlockOptions

Array = np.ndarray
WEIGHTS = ("gamma1", "beta1", "w1", "b1", "w2", "b2", "gamma2", "beta2")


class Result(NamedTuple):
    """y, and the gradients of sum(dy * y) by the name of the input."""

    y: Array
    gradients: dict[str, Array]


def mix(tokens: Array) -> Array:
    """`[batch, T, D]`; head h of token t becomes head t of token h."""
    batch, count, dim = tokens.shape
    return tokens.reshape(batch, count, count, dim // count).swapaxes(1, 2).reshape(batch, count, dim)


def _erfc(values: Array) -> Array:
    return np.vectorize(math.erfc, otypes=[np.float64])(values) if values.size else values


def activate(a: Array, activation: str) -> tuple[Array, list[Array]]:
    """Hidden units, and their derivatives by each part of `a` along the last axis (two parts with swiglu)."""
    if activation == "gelu":
        below = 0.5 * _erfc(-a / math.sqrt(2.0))
        return a * below, [below + a * np.exp(-a * a / 2.0) / math.sqrt(2.0 * math.pi)]
    if activation == "gelu_tanh":
        root = math.sqrt(2.0 / math.pi)
        # (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which keeps its digits where tanh is next to -1.
        share = 1.0 / (1.0 + np.exp(-2.0 * root * (a + 0.044715 * a**3)))
        return a * share, [share + a * share * (1.0 - share) * 2.0 * root * (1.0 + 3 * 0.044715 * a**2)]
    gate, value = np.split(a, 2, axis=-1)
    share = 1.0 / (1.0 + np.exp(-gate))
    silu = gate * share
    return silu * value, [value * (share + silu * (1.0 - share)), silu]


def _norm(u: Array, gamma: Array, beta: Array, options: BlockOptions) -> tuple[Array, Array, Array]:
    """The normed rows, the rows before gamma, the scale they were multiplied by."""
    centred = u - u.mean(-1, keepdims=True) if options.norm == "post_ln" else u
    scale = 1.0 / np.sqrt((centred**2).mean(-1, keepdims=True) + options.epsilon)
    unit = centred * scale
    return unit * gamma + (beta if options.norm == "post_ln" else 0.0), unit, scale


def _norm_gradient(dy: Array, unit: Array, scale: Array, gamma: Array, options: BlockOptions) -> Array:
    g = dy * gamma
    result = g - unit * (g * unit).mean(-1, keepdims=True)
    if options.norm == "post_ln":
        result = result - g.mean(-1, keepdims=True)
    return result * scale


def _each(rows: Array, matrices: Array) -> Array:
    """`[batch, T, m]` times each token's `[T, m, n]`: `[batch, T, n]`."""
    return np.matmul(rows.swapaxes(0, 1), matrices).swapaxes(0, 1)


def _outer(one: Array, other: Array) -> Array:
    """Sum over the batch of the products of `[batch, T, m]` and `[batch, T, n]`: `[T, m, n]`."""
    return np.matmul(one.transpose(1, 2, 0), other.swapaxes(0, 1))


def dropout_factors(options: BlockOptions, seed: tuple[int, int], shape: tuple[int, int, int]) -> Array:
    """`[batch, T, F]`: 0 for a dropped unit, else 1 / (1 - dropout); from the text of dropout.h."""
    batch, tokens, hidden = shape
    if options.dropout == 0:
        return np.ones(shape)

    def mix64(z: Array) -> Array:
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    first, second = (np.array([value % 2**64], np.uint64) for value in seed)
    key = mix64(mix64(first + np.uint64(0x9E3779B97F4A7C15)) ^ second)
    token = np.arange(tokens, dtype=np.uint64)[None, :] << np.uint64(40)
    key = mix64(key ^ token ^ np.arange(batch, dtype=np.uint64)[:, None])[:, :, None]
    low, high = (part.astype(np.uint32) for part in (key & np.uint64(0xFFFFFFFF), key >> np.uint64(32)))
    h = (np.arange(hidden, dtype=np.uint32) * np.uint32(0x9E3779B1)) ^ low
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B) ^ high
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    h = h ^ (h >> np.uint32(16))
    rate = float(np.float32(options.dropout))
    return np.where(h < math.floor(rate * 2**32), 0.0, 1.0 / (1.0 - rate))


def block(
    x: Array, weights: dict[str, Array], options: BlockOptions, dy: Array, seed: tuple[int, int] = (0, 0)
) -> Result:
    """The block of float64 `x` `[batch, T, D]`, and the gradients for the gradient `dy` of its result."""
    w = weights
    post = options.norm == "post_ln"
    if post:
        u = mix(x) + x
        s, s_unit, s_scale = _norm(u, w["gamma1"], w["beta1"], options)
        residual = s
    else:
        n, n_unit, n_scale = _norm(x, w["gamma1"], w["beta1"], options)
        u = x + mix(n)
        s, s_unit, s_scale = _norm(u, w["gamma2"], w["beta2"], options)
        residual = u
    a = _each(s, w["w1"]) + w["b1"]
    plain, slopes = activate(a, options.activation)
    factors = dropout_factors(options, seed, plain.shape)
    h = plain * factors
    z = _each(h, w["w2"]) + w["b2"] + residual
    y, z_unit, z_scale = _norm(z, w["gamma2"], w["beta2"], options) if post else (z, z, z)

    d: dict[str, Array] = {}
    dz = _norm_gradient(dy, z_unit, z_scale, w["gamma2"], options) if post else dy
    d["b2"] = dz.sum(0)
    d["w2"] = _outer(h, dz)
    dh = _each(dz, w["w2"].swapaxes(1, 2)) * factors
    da = np.concatenate([dh * slope for slope in slopes], axis=-1)
    d["b1"] = da.sum(0)
    d["w1"] = _outer(s, da)
    ds = _each(da, w["w1"].swapaxes(1, 2))
    if post:
        ds = ds + dz
        du = _norm_gradient(ds, s_unit, s_scale, w["gamma1"], options)
        d["x"] = du + mix(du)
        d["gamma1"], d["beta1"] = (ds * s_unit).sum((0, 1)), ds.sum((0, 1))
        d["gamma2"], d["beta2"] = (dy * z_unit).sum((0, 1)), dy.sum((0, 1))
    else:
        du = dz + _norm_gradient(ds, s_unit, s_scale, w["gamma2"], options)
        dn = mix(du)
        d["x"] = du + _norm_gradient(dn, n_unit, n_scale, w["gamma1"], options)
        d["gamma1"], d["gamma2"] = (dn * n_unit).sum((0, 1)), (ds * s_unit).sum((0, 1))
        d["beta1"] = d["beta2"] = np.zeros(0)
    return Result(y, d)


def example(
    batch: int, tokens: int, dim: int, hidden: int, options: BlockOptions, seed: int = 0
) -> tuple[Array, dict[str, Array], Array]:
    """x, weights and dy of natural size, float64 but exact in float32."""
    rng = np.random.default_rng(seed)
    inner = 2 * hidden if options.activation == "swiglu" else hidden
    beta = dim if options.norm == "post_ln" else 0

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32).astype(np.float64)

    def scaled(scale: float, *shape: int) -> Array:
        return (rng.standard_normal(shape) * scale).astype(np.float32).astype(np.float64)

    weights = {
        "gamma1": 1.0 + scaled(0.1, dim),
        "beta1": scaled(0.1, beta),
        "w1": scaled(1.0 / math.sqrt(dim), tokens, dim, inner),
        "b1": scaled(0.1, tokens, inner),
        "w2": scaled(1.0 / math.sqrt(max(hidden, 1)), tokens, hidden, dim),
        "b2": scaled(0.1, tokens, dim),
        "gamma2": 1.0 + scaled(0.1, dim),
        "beta2": scaled(0.1, beta),
    }
    weights = {name: value.astype(np.float32).astype(np.float64) for name, value in weights.items()}
    return normal(batch, tokens, dim), weights, normal(batch, tokens, dim)
