"""The models' formulas in float64 NumPy, written from the papers with a loop for each index."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

BLOCK_WEIGHTS = ("gamma1", "beta1", "w1", "b1", "w2", "b2", "gamma2", "beta2")


def mix(tokens: np.ndarray) -> np.ndarray:
    """New token h is the concatenation of head h of every token; `[batch, T, D]`."""
    batch, count, dim = tokens.shape
    width = dim // count
    mixed = np.empty_like(tokens)
    for row in range(batch):
        for head in range(count):
            pieces = [tokens[row, t, head * width : (head + 1) * width] for t in range(count)]
            mixed[row, head] = np.concatenate(pieces)
    return mixed


def layer_norm(vector: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float) -> np.ndarray:
    mean = vector.sum() / vector.size
    variance = ((vector - mean) ** 2).sum() / vector.size
    return gamma * (vector - mean) / math.sqrt(variance + epsilon) + beta


def gelu_exact(values: np.ndarray) -> np.ndarray:
    return np.array([0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in values])


def gelu_tanh(values: np.ndarray) -> np.ndarray:
    return np.array([0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) for x in values])


def rms_norm(vector: np.ndarray, gamma: np.ndarray, epsilon: float) -> np.ndarray:
    return gamma * vector / math.sqrt((vector**2).sum() / vector.size + epsilon)


def swiglu(values: np.ndarray) -> np.ndarray:
    """Of 2F values F: silu of value i times value F + i."""
    width = len(values) // 2
    return np.array([x / (1 + math.exp(-x)) * values[width + i] for i, x in enumerate(values[:width])])


ACTIVATIONS = {"gelu": gelu_exact, "gelu_tanh": gelu_tanh, "swiglu": swiglu}
Network = Callable[[int, np.ndarray], np.ndarray]  # of token t, for a vector


def block(
    tokens: np.ndarray, weights: dict[str, np.ndarray], norm: str, epsilon: float, network: Network
) -> np.ndarray:
    """`post_ln`: `S = LN(mix(X) + X)`, `LN(FFN(S) + S)`; `pre_rms`: `U = X + mix(RMS(X))`, `U + FFN(RMS(U))`."""
    result = np.empty_like(tokens)
    if norm == "post_ln":
        summed = mix(tokens) + tokens
    else:
        normed = np.empty_like(tokens)
        for place in np.ndindex(*tokens.shape[:2]):
            normed[place] = rms_norm(tokens[place], weights["gamma1"], epsilon)
        summed = mix(normed) + tokens
    for row, t in np.ndindex(*tokens.shape[:2]):
        u = summed[row, t]
        if norm == "post_ln":
            s = layer_norm(u, weights["gamma1"], weights["beta1"], epsilon)
            result[row, t] = layer_norm(network(t, s) + s, weights["gamma2"], weights["beta2"], epsilon)
        else:
            result[row, t] = network(t, rms_norm(u, weights["gamma2"], epsilon)) + u
    return result


def token_network(weights: dict[str, np.ndarray], activation: str) -> Network:
    """`act(s W1_t + b1_t) W2_t + b2_t`."""
    act = ACTIVATIONS[activation]
    return lambda t, s: act(s @ weights["w1"][t] + weights["b1"][t]) @ weights["w2"][t] + weights["b2"][t]


def gates(weights: dict[str, np.ndarray], router: str, t: int, s: np.ndarray) -> np.ndarray:
    """`ReLU(s R_t + r_t)`; `[experts]`."""
    return np.maximum(s @ weights[f"{router}/kernel"][t] + weights[f"{router}/bias"][t], 0)


def expert_networks(weights: dict[str, np.ndarray], activation: str, router: str) -> Network:
    """`sum over e of G_e(s) · FFN_t,e(s)`."""

    def network(t: int, s: np.ndarray) -> np.ndarray:
        result = np.zeros_like(s)
        for e, gate in enumerate(gates(weights, router, t, s)):
            hidden = ACTIVATIONS[activation](s @ weights["w1"][t, e] + weights["b1"][t, e])
            result += gate * (hidden @ weights["w2"][t, e] + weights["b2"][t, e])
        return result

    return network


def numeric_gradient(function: Callable[[np.ndarray], float], point: np.ndarray, step: float) -> np.ndarray:
    """Central differences of a scalar function in every coordinate, with fourth-order error."""
    gradient = np.zeros_like(point)
    for index in np.ndindex(*point.shape):
        values = []
        for factor in (-2, -1, 1, 2):
            moved = point.copy()
            moved[index] += factor * step
            values.append(function(moved))
        gradient[index] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
    return gradient


def attention_dot(elements: np.ndarray, mask: np.ndarray, query: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Softmax-weighted sum of each row's real elements; zeros without any."""
    result = np.zeros((elements.shape[0], elements.shape[2]))
    for row in range(elements.shape[0]):
        real = elements[row][mask[row]]
        if len(real):
            scores = real @ (query[row] @ metric) / math.sqrt(elements.shape[2])
            shares = np.exp(scores - scores.max())
            result[row] = (shares / shares.sum()) @ real
    return result


def attention_din(
    elements: np.ndarray, mask: np.ndarray, query: np.ndarray, weights: dict[str, np.ndarray]
) -> np.ndarray:
    result = np.zeros((elements.shape[0], elements.shape[2]))
    for row in range(elements.shape[0]):
        for element in elements[row][mask[row]]:
            hidden = query[row] @ weights["query_kernel"] + element @ weights["element_kernel"]
            hidden = hidden + (query[row] * element) @ weights["product_kernel"] + weights["hidden_bias"]
            score = np.maximum(hidden, 0) @ weights["score_kernel"] + weights["score_bias"]
            result[row] += score * element
    return result
