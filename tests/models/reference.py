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


def block(tokens: np.ndarray, weights: dict[str, np.ndarray], gelu: str, epsilon: float) -> np.ndarray:
    """`S = LN(mix(X) + X)`, `LN(FFN(S) + S)`; `[batch, T, D]`."""
    activate = gelu_exact if gelu == "exact" else gelu_tanh
    mixed = mix(tokens)
    result = np.empty_like(tokens)
    for row in range(tokens.shape[0]):
        for t in range(tokens.shape[1]):
            s = layer_norm(mixed[row, t] + tokens[row, t], weights["gamma1"], weights["beta1"], epsilon)
            hidden = activate(s @ weights["w1"][t] + weights["b1"][t])
            output = hidden @ weights["w2"][t] + weights["b2"][t]
            result[row, t] = layer_norm(output + s, weights["gamma2"], weights["beta2"], epsilon)
    return result


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
