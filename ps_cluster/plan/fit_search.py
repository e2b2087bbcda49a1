"""The likeliest spread of ids over rates, searched among those of a few shapes.

Rates of ids are spread like a power law between a least and a largest one (Zipf's law for so many ids) or log-normally.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ps_cluster.plan.arrivals import LOG_MEANS, MEANS


@dataclass(frozen=True)
class Shape:
    """weights: of tries `[tries, parameters]` at each of `MEANS`, `[tries, means]`. The others: of the search."""

    weights: Callable[[np.ndarray], np.ndarray]
    centre: tuple[float, ...]
    width: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    points: int


@dataclass
class Best:
    """likelihood: its logarithm. told: what the model keeps of its best try. tries: logarithm of the likelihood, and
    ids at `FAR` times what was read, of all that were tried."""

    likelihood: float = -math.inf
    weights: np.ndarray = field(default_factory=lambda: np.zeros(len(MEANS)))
    told: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tries: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


def _power_law(tried: np.ndarray) -> np.ndarray:
    """tried: exponent, logarithms of the least and the largest rate. They may lie between two of the grid."""
    step = LOG_MEANS[1] - LOG_MEANS[0]
    exponents, least, most = tried.T[:, :, None]
    inside = np.clip((LOG_MEANS - least) / step + 0.5, 0.0, 1.0) * np.clip((most - LOG_MEANS) / step + 0.5, 0.0, 1.0)
    return np.exp(-exponents * (LOG_MEANS - least)) * inside


def _log_normal(tried: np.ndarray) -> np.ndarray:
    """tried: mean and deviation of the logarithms."""
    mean, deviation = tried.T[:, :, None]
    return np.exp(-0.5 * ((LOG_MEANS - mean) / deviation) ** 2)


_FIRST, _LAST = float(LOG_MEANS[0]), float(LOG_MEANS[-1])
_HALF, _MIDDLE = (_LAST - _FIRST) / 2, (_LAST + _FIRST) / 2
SHAPES = (
    Shape(_power_law, (2.5, _MIDDLE, _LAST), (2.5, _HALF, _HALF), (0.0, _FIRST, _FIRST), (5.0, _LAST, _LAST), 11),
    Shape(_log_normal, (0.0, 2.0), (_HALF, 2.0), (_FIRST, 0.1), (_LAST, 4.0), 13),
)
_CLOSER = 0.7
_GRIDS, _ELITE, _DRAWN, _WIDER = 2, 25, 300, 2.0


def searched(judged: Callable, rounds: int = 24, shapes: Sequence[Shape] = SHAPES) -> Best:
    """Searches grids, then clouds that are drawn with the covariance of the best points so far: the likelihood has
    narrow ridges, oblique to the axes, along which a grid that closes in on its best point comes to a halt."""
    found = []
    for shape in shapes:
        low, high = np.asarray(shape.low), np.asarray(shape.high)
        centre, width = np.asarray(shape.centre), np.asarray(shape.width)
        best = Best()
        points, likelihoods = np.zeros((0, len(low))), np.zeros(0)
        random = np.random.default_rng(1)  # the same log gives the same plan
        for turn in range(rounds):
            if turn < _GRIDS:
                axes = [
                    np.unique(np.linspace(c - w, c + w, shape.points).clip(least, most))
                    for c, w, least, most in zip(centre, width, low, high)
                ]
                tried = np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)
                width = width * _CLOSER
            else:
                spread = _WIDER * np.cov(points.T) + np.diag((1e-4 * (high - low)) ** 2)
                tried = random.multivariate_normal(points.mean(axis=0), spread, _DRAWN).clip(low, high)
            weights = shape.weights(tried)
            likelihood, told, later = judged(weights)
            best.tries.append((likelihood, later))
            at = int(np.argmax(likelihood))
            if likelihood[at] > best.likelihood:
                best.likelihood, best.weights, best.told = float(likelihood[at]), weights[at], told[at]
                centre = tried[at]
            points, likelihoods = np.concatenate([points, tried]), np.append(likelihoods, likelihood)
            elite = np.argsort(-likelihoods, kind="stable")[:_ELITE]
            points, likelihoods = points[elite], likelihoods[elite]
        found.append(best)
    best = max(found, key=lambda one: one.likelihood)
    best.tries = [one for each in found for one in each.tries]
    return best


def likelihood_of(expected: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Logarithms, of `expected` `[tries, cells]` as shares of the ids seen."""
    used = seen > 0
    whole = np.maximum(expected.sum(axis=1, keepdims=True), 1e-300)
    return np.log(np.maximum(expected[:, used] / whole, 1e-300)).dot(seen[used])


def likeliest_sum(a: np.ndarray, b: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The likeliest sums `whole * (a + ratio * b)`, for each try: logarithm of the likelihood, ratio, whole. The
    likelihood has one maximum, which halving finds."""
    of_a, of_b = np.maximum(a.sum(axis=1), 1e-30), np.maximum(b.sum(axis=1), 1e-30)
    used = seen > 0
    first, some = a[:, used] / of_a[:, None], seen[used]
    step = b[:, used] / of_b[:, None] - first
    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(16):
        middle = (low + high) / 2
        rising = (step / np.maximum(first + middle[:, None] * step, 1e-300)).dot(some) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    share = np.where(low == 0, 0.0, np.where(high == 1, 1 - 1e-9, (low + high) / 2))
    likelihood = np.log(np.maximum(first + share[:, None] * step, 1e-300)).dot(some)
    ratio = (share / of_b) / ((1 - share) / of_a)
    return likelihood, ratio, seen.sum() / (of_a + ratio * of_b)
