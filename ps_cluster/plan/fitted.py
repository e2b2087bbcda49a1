"""A model of ids that was fitted to a part of a log: how well it fits, what it says of later, and within what range."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ps_cluster.plan.arrivals import PARTS

FAR = 10.0
"""The range is told for so many times what was read."""
_NEARLY = 2.5
_MISFIT_OF_AN_ID = 2e-3
_ROUGH = 0.08
"""No log follows a law: the ids to come are known no better than this."""
_OFTEN = 1e3
_ENDED = 5
"""Where fewer ids than this came first in the second half, they may have been the last."""


@dataclass(frozen=True)
class Fitted:
    """ids, born: by rate of `rates` (in visits in what was read), born in the whole of it. passing: by `MEANS`, of ids
    that pass. linear: ids that come first at a constant rate. first: expected ids that come first in each part."""

    likelihood: float
    rates: np.ndarray
    ids: np.ndarray
    born: np.ndarray
    passing: np.ndarray
    linear: float
    first: np.ndarray
    tries: tuple[tuple[np.ndarray, np.ndarray], ...]


def misfit(seen: np.ndarray, expected: np.ndarray) -> float:
    """Deviance: about the number of parts where the model holds."""
    some = seen > 0
    parts = seen[some] * np.log(seen[some] / np.maximum(expected[some], 1e-9))
    return float(2 * (parts.sum() + expected.sum() - seen.sum()))


def allowed(least: float, ids: int) -> float:
    """More of `misfit` than another model has that says nothing against one of so many ids."""
    return least + _MISFIT_OF_AN_ID * ids


def shares_of(visits: np.ndarray, first: np.ndarray) -> tuple[float, ...]:
    """Of ids that came first in the first half, so many have come 1, 2, … times."""
    early = visits[first <= 0.5]
    if not len(early):
        return (1.0,)
    most = int(min(early.max(), 4096))
    found = np.bincount(np.minimum(early, most), minlength=most + 1)[::-1].cumsum()[::-1][1:] / len(early)
    return tuple(float(one) for one in found)


def range_of(fitted: Fitted, arrived: np.ndarray) -> tuple[float, float]:
    """At `FAR`, of 20 logs 19 should have at least and at most so many times what is told. arrived: ids that came first
    in each part. Every set of parameters that was tried and is nearly as likely as the best speaks for the range."""
    best = max(float(likelihood.max()) for likelihood, _ in fitted.tries)
    nearly = np.concatenate([later[likelihood > best - _NEARLY] for likelihood, later in fitted.tries])
    told = at(fitted, FAR)
    low, high = min(float(nearly.min()) / told, 1.0), max(float(nearly.max()) / told, 1.0)
    # Ids to come vary, and do so more where those seen did.
    coming = max(told - arrived.sum(), 0.0) / told
    varied = math.sqrt(max(misfit(arrived, fitted.first) / PARTS, 1.0))
    chance = _ROUGH * coming + 2 * varied * math.sqrt(coming * told + 1) / told
    low, high = low - chance, high + chance
    least = arrived.sum() / told
    if arrived[PARTS - 4 :].sum() < _ENDED:
        low = least
    return max(low, least), high


def as_counted(fitted: Fitted, ids: int) -> Fitted:
    """At the end of what was read there are the ids that were counted: what a model lacks has come for sure."""
    lacking = ids - at(fitted, 1.0)
    if lacking < 0:
        scale = ids / (ids - lacking)
        return replace(
            fitted, ids=fitted.ids * scale, born=fitted.born * scale, passing=fitted.passing * scale,
            linear=fitted.linear * scale,
        )  # fmt: skip
    return replace(
        fitted, rates=np.append(fitted.rates, _OFTEN), ids=np.append(fitted.ids, lacking),
        born=np.append(fitted.born, 0.0),
    )  # fmt: skip


def at(fitted: Fitted, far: float) -> float:
    """Ids at so many times what was read."""
    there = -np.expm1(-fitted.rates * far)
    return float(fitted.ids.dot(there) + fitted.born.dot(far - there / fitted.rates) + fitted.linear * far)
