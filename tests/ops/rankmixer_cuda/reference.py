"""The RankMixer block and its gradients in NumPy float64, written from the op's registration alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ops.rankmixer_gpu import BlockProblem

Array = np.ndarray

_erf = np.vectorize(math.erf, otypes=[np.float64])


class BlockArrays(NamedTuple):
    """Weights of a block, or their gradients; shapes as at the op's registration."""

    gamma1: Array
    beta1: Array
    w1: Array
    b1: Array
    w2: Array
    b2: Array
    gamma2: Array
    beta2: Array


@dataclass(frozen=True)
class Forward:
    """Result of a block with what it would keep."""

    y: Array
    inner: Array
    sum: Array


def mix(tokens: Array) -> Array:
    batch, count, dim = tokens.shape
    return tokens.reshape(batch, count, count, dim // count).swapaxes(1, 2).reshape(batch, count, dim)


def norm(kind: str, rows: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    if kind == "pre_rms":
        return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + epsilon) * gamma
    return (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + epsilon) * gamma + beta


def norm_grad(kind: str, dout: Array, rows: Array, gamma: Array, epsilon: float) -> tuple[Array, Array, Array]:
    """Gradients of rows, gamma and beta; the norm's own Jacobian applied row by row."""
    dim = rows.shape[-1]
    centred = rows if kind == "pre_rms" else rows - rows.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    dnormed = dout * gamma
    dcentred = dnormed * scale - centred * scale**3 * (dnormed * centred).sum(-1, keepdims=True) / dim
    drows = dcentred if kind == "pre_rms" else dcentred - dcentred.mean(-1, keepdims=True)
    every = tuple(range(rows.ndim - 1))
    dbeta = np.zeros(0) if kind == "pre_rms" else dout.sum(every)
    return drows, (dout * centred * scale).sum(every), dbeta


def activation(kind: str, inner: Array) -> Array:
    if kind == "swiglu":
        gate, value = np.split(inner, 2, axis=-1)
        return gate / (1 + np.exp(-gate)) * value
    if kind == "gelu":
        return inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
    return 0.5 * inner * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))


def activation_grad(kind: str, inner: Array, dhidden: Array) -> Array:
    if kind == "swiglu":
        gate, value = np.split(inner, 2, axis=-1)
        share = 1 / (1 + np.exp(-gate))
        slope = share + gate * share * (1 - share)
        return np.concatenate([dhidden * value * slope, dhidden * gate * share], -1)
    if kind == "gelu":
        density = np.exp(-(inner**2) / 2) / math.sqrt(2 * math.pi)
        return dhidden * (0.5 * (1 + _erf(inner / math.sqrt(2))) + inner * density)
    tanh = np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * inner**2)
    return dhidden * (0.5 * (1 + tanh) + 0.5 * inner * (1 - tanh**2) * slope)


def mix64(z: Array) -> Array:
    """The finalizer of SplitMix64, on uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def dropout_scale(problem: BlockProblem, seed: Array | None) -> Array:
    """What hidden units are multiplied with, `[tokens, batch, hidden]`; the hash is written down in `dropout.cuh`."""
    shape = (problem.tokens, problem.batch, problem.hidden)
    if problem.dropout == 0 or seed is None:
        return np.ones(shape)
    token, row, unit = (axis.astype(np.uint64) for axis in np.ogrid[: shape[0], : shape[1], : shape[2]])
    first, second = seed.astype(np.uint64)[:, np.newaxis, np.newaxis, np.newaxis]
    key = mix64(mix64(first + np.uint64(0x9E3779B97F4A7C15)) ^ second)
    key = mix64(key ^ (token << np.uint64(40)) ^ row)
    h = (unit.astype(np.uint32) * np.uint32(0x9E3779B1)) ^ key.astype(np.uint32)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = h ^ (key >> np.uint64(32)).astype(np.uint32)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    h = h ^ (h >> np.uint32(16))
    return np.where(h < math.floor(float(np.float32(problem.dropout)) * 2**32), 0.0, 1 / (1 - problem.dropout))


def forward(problem: BlockProblem, x: Array, w: BlockArrays, seed: Array | None = None) -> Forward:
    if problem.norm == "post_ln":
        normed = norm("post_ln", mix(x) + x, w.gamma1, w.beta1, problem.epsilon)
        residual = normed
    else:
        residual = x + mix(norm("pre_rms", x, w.gamma1, w.beta1, problem.epsilon))
        normed = norm("pre_rms", residual, w.gamma2, w.beta2, problem.epsilon)
    inner = np.einsum("btd,tdf->tbf", normed, w.w1) + w.b1[:, np.newaxis]
    hidden = activation(problem.activation, inner) * dropout_scale(problem, seed)
    output = np.einsum("tbf,tfd->btd", hidden, w.w2) + w.b2 + residual
    if problem.norm == "post_ln":
        y = norm("post_ln", output, w.gamma2, w.beta2, problem.epsilon)
        return Forward(y, inner, output.swapaxes(0, 1))
    return Forward(output, inner, residual.swapaxes(0, 1))


def backward(
    problem: BlockProblem, dy: Array, x: Array, w: BlockArrays, seed: Array | None = None
) -> tuple[Array, BlockArrays]:
    """Gradients of x and of the weights."""
    post_ln = problem.norm == "post_ln"
    of = forward(problem, x, w, seed)
    total = of.sum.swapaxes(0, 1)
    if post_ln:
        normed = norm("post_ln", mix(x) + x, w.gamma1, w.beta1, problem.epsilon)
        doutput, dgamma2, dbeta2 = norm_grad("post_ln", dy, total, w.gamma2, problem.epsilon)
    else:
        normed = norm("pre_rms", total, w.gamma2, w.beta2, problem.epsilon)
        doutput = dy
    scale = dropout_scale(problem, seed)
    hidden = activation(problem.activation, of.inner) * scale
    dw2 = np.einsum("tbf,btd->tfd", hidden, doutput)
    dhidden = np.einsum("btd,tfd->tbf", doutput, w.w2) * scale
    dinner = activation_grad(problem.activation, of.inner, dhidden)
    dw1 = np.einsum("btd,tbf->tdf", normed, dinner)
    dnormed = np.einsum("tbf,tdf->btd", dinner, w.w1)
    if post_ln:
        drows, dgamma1, dbeta1 = norm_grad("post_ln", dnormed + doutput, mix(x) + x, w.gamma1, problem.epsilon)
        dx = drows + mix(drows)
    else:
        dresidual, dgamma2, dbeta2 = norm_grad("pre_rms", dnormed, total, w.gamma2, problem.epsilon)
        dresidual = dresidual + dy
        dx, dgamma1, dbeta1 = norm_grad("pre_rms", mix(dresidual), x, w.gamma1, problem.epsilon)
        dx = dx + dresidual
    return dx, BlockArrays(dgamma1, dbeta1, dw1, dinner.sum(1), dw2, doutput.sum(0), dgamma2, dbeta2)
