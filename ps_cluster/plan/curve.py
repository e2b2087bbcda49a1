"""How the number of ids grows with the occurrences read, told from how often the ids of a part of a log have come.

Occurrences of an id that follow each other closely, as the rows of a request do, are one visit of it; visits are what
is counted here. Two kinds of ids are told apart. *Lasting* ones come at a rate of their own throughout; those that
came `c` times have come first in the second half of what was read with a probability of `2**-c`. *New* ones appear on
the way (today's videos); half of them appear in the second half. So, of `n_c` ids that came `c` times, of which `l_c`
came first in the second half, `(l_c - n_c * 2**-c) / (1/2 - 2**-c)` are new. New ids go on coming in proportion to the
occurrences. The rates of the lasting ids are spread, below 100 occurrences, like a power law between a least and a
largest rate (Zipf's law for so many ids) or log-normally, whichever makes the numbers of ids that came 1, 2, … 40 times
likelier. Ids with more occurrences have the rate they showed. At last the curve that the first half alone gives is held
against what then came: if that is clearly more or less, so are the new ids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

FEW = 40
"""Ids that came so often or less are taken to have a rate of the power law."""
LARGEST = 4096
"""Counts are kept up to here."""
_MOST = 100.0
_BIN = 1.08
"""Ids that came more often are put together where their counts differ by less than this factor."""
_LEAST = 1e-5
_TOGETHER = 500
_CORRECTED = 64
_RATES = 100
_GRID, _ROUNDS, _CLOSER = 13, 18, 0.7


@dataclass(frozen=True)
class Growth:
    """Ids of a table as a function of occurrences.

    rates, ids: so many lasting ids come at such a rate, in visits of theirs per occurrence of any.
    new: by `t` from 1 on, new ids per occurrence that come at least `t` times; the last one holds for more.
    occurrences, different: what was read. per_visit: an id's occurrences that come together.
    """

    rates: tuple[float, ...]
    ids: tuple[float, ...]
    new: tuple[float, ...]
    occurrences: float
    different: float
    per_visit: float = 1.0

    def visits(self, occurrences: int) -> int:
        """Visits that bring so many occurrences."""
        return max(math.ceil(occurrences / self.per_visit - 1e-9), 1)

    def new_at_least(self, visits: int) -> float:
        return self.new[min(visits, len(self.new)) - 1]

    def at(self, occurrences: float, threshold: int = 1) -> float:
        """Ids that have come at least `threshold` times."""
        visits = self.visits(threshold)
        return ids_at_least(occurrences, visits, self.rates, self.ids, self.new_at_least(visits))


def corrected(growth: Growth, half: Growth, kept: float) -> Growth:
    """The growth with as many more or fewer new ids as the curve of the first half missed in the second.

    kept: ids that were really counted, of `growth.different`.
    """
    came = growth.different - half.different
    missed = growth.different - half.at(growth.occurrences)
    scale = growth.different / max(kept, 1.0)
    if abs(missed) < max(0.2 * came, 3 * math.sqrt(max(came, 1.0) * scale)):
        return growth
    extra = missed / max(growth.occurrences - half.occurrences, 1.0)
    at_once = [growth.at(growth.occurrences, times) for times in range(1, len(growth.new) + 1)][:_CORRECTED]
    shares = [one / max(at_once[0], 1.0) for one in at_once]
    new = [max(one + extra * share, 0.0) for one, share in zip(growth.new, shares)]
    return replace(growth, new=(*new, *growth.new[_CORRECTED:]))


def ids_at_least(n: float, t: float, rates: Sequence[float], ids: Sequence[float], new: float) -> float:
    """Ids that have come at least `t` times after `n` occurrences: the sum of `ids[k]` times the probability that a
    Poisson variable of mean `rates[k] * n` is at least `t`, and `new * n` ids that appeared meanwhile."""
    if n <= 0:
        return 0.0
    return float(np.dot(ids, _at_least(int(t), np.asarray(rates) * n)) + new * n)


def growth_of(
    counts: Sequence[int], late: Sequence[int], occurrences: float, scale: float = 1.0, per_visit: float = 1.0
) -> Growth:
    """The growth that a part of a log shows.

    Args:
      counts: of ids that came 1, 2, … times (visits); the last entry holds those that came as often or more.
      late: of those, which came first in the second half.
      occurrences: in all.
      scale: so many ids stand behind each one counted.
      per_visit: an id's occurrences that come together.
    """
    found = np.asarray(counts, float)
    new = _new(found, np.asarray(late, float)) * scale
    found *= scale
    lasting = np.maximum(found - new, 0.0)
    rates, ids = _lasting(lasting, occurrences)
    at_least = np.cumsum(new[::-1])[::-1] / max(occurrences, 1.0)
    return Growth(tuple(rates), tuple(ids), tuple(at_least), float(occurrences), float(found.sum()), per_visit)


def _new(counts: np.ndarray, late: np.ndarray) -> np.ndarray:
    """How many of the ids are new, by occurrences. Shares are of ids that came nearly equally often, where there are
    few. Those that came once come first in the second half as often when they last as when they are new; their odds
    are to those of ids that came twice as these are to those of the next."""
    c = np.arange(1, len(counts) + 1)
    by_chance = 0.5**c
    share = np.zeros(len(counts))
    expected = counts * by_chance
    # What may be chance is none.
    if (late - expected)[1:].sum() < 3 * math.sqrt((expected * (1 - by_chance))[1:].sum() + 1):
        return share
    odds: list[tuple[float, float]] = []
    at = 1
    while at < len(counts):
        end = at + 1
        while end < len(counts) and counts[at:end].sum() < _TOGETHER:
            end += 1
        some = counts[at:end].sum()
        if some > 0:
            by_luck = float(expected[at:end].sum())
            excess = max(float(late[at:end].sum()) - by_luck, 0.0)
            share[at:end] = min(excess / (some / 2 - by_luck), 1.0)
            mean = float((counts[at:end] * c[at:end]).sum()) / some
            odds.append((mean, min(max(share[at] / max(1 - share[at], 1e-3), 1e-3), 1e3)))
        at = end
    if len(odds) > 1 and share[1] > 0:
        (near, first), (far, second) = odds[:2]
        once = first * (first / second) ** ((near - 1) / (far - near))
        share[0] = min(once, first) / (1 + min(once, first))
    return counts * share


def _lasting(counts: np.ndarray, occurrences: float) -> tuple[np.ndarray, np.ndarray]:
    few, many = counts[:FEW], counts[FEW:]
    log_means = np.linspace(math.log(_LEAST), math.log(_MOST), _RATES)
    means = np.exp(log_means)
    j = np.arange(1, len(counts) + 1)
    probable = np.exp(j[:FEW, None] * log_means[None, :] - means[None, :] - _log_factorial(FEW)[:, None])
    weights = np.zeros(_RATES)
    if few.sum() > 0:
        weights = _spread(few, log_means, probable)
    # What the power law has of those that came more often is not there twice.
    predicted = np.exp(
        j[FEW : FEW * 6, None] * log_means[None, :] - means[None, :] - _log_factorial(FEW * 6)[FEW : len(j), None]
    ).dot(weights)
    left = many.copy()
    left[: len(predicted)] = np.maximum(many[: len(predicted)] - predicted, 0.0)
    if many.sum() > 0 and left.sum() > 0:
        left *= max(many.sum() - predicted.sum(), 0.0) / left.sum()
    used = weights > weights.sum() * 1e-9
    scale = max(occurrences, 1.0)
    often, many_ids = _binned(j[FEW:].astype(float), left)
    return np.concatenate([means[used], often]) / scale, np.concatenate([weights[used], many_ids])


def _binned(counts: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids of nearly equal counts together, at their mean."""
    place = np.floor(np.log(counts / counts[0]) / math.log(_BIN)).astype(int)
    sums = np.bincount(place, weights=ids)
    means = np.bincount(place, weights=ids * counts)
    kept = sums > 0
    return means[kept] / sums[kept], sums[kept]


def _spread(few: np.ndarray, log_means: np.ndarray, probable: np.ndarray) -> np.ndarray:
    """Ids at each of the mean counts, by the likelier of both shapes."""
    first, last = float(log_means[0]), float(log_means[-1])
    middle, half = (first + last) / 2, (last - first) / 2
    found = [
        _likeliest(
            few, probable, lambda tried: _power_law(tried, log_means),
            centre=(1.0, middle, last), width=(4.0, half, half), low=(-3.0, first, first), high=(5.0, last, last),
        ),
        _likeliest(
            few, probable, lambda tried: _log_normal(tried, log_means),
            centre=(0.0, 2.0), width=(half, 2.0), low=(first, 0.1), high=(last, 4.0),
        ),
    ]  # fmt: skip
    weights = max(found, key=lambda one: one[0])[1]
    return weights * (few.sum() / probable.dot(weights).sum())


def _power_law(tried: np.ndarray, log_means: np.ndarray) -> np.ndarray:
    """tried: exponent, logarithms of the least and the largest rate, `[tries, 3]`. Returns `[tries, rates]`."""
    step = log_means[1] - log_means[0]
    exponents, least, most = tried.T[:, :, None]
    # The rates at which it begins and ends lie between two of the grid.
    inside = np.clip((log_means - least) / step + 0.5, 0.0, 1.0) * np.clip((most - log_means) / step + 0.5, 0.0, 1.0)
    return np.exp(-exponents * (log_means - least)) * inside


def _log_normal(tried: np.ndarray, log_means: np.ndarray) -> np.ndarray:
    """tried: mean and deviation of the logarithms, `[tries, 2]`. Returns `[tries, rates]`."""
    mean, deviation = tried.T[:, :, None]
    return np.exp(-0.5 * ((log_means - mean) / deviation) ** 2)


def _likeliest(few, probable, shapes, centre, width, low, high) -> tuple[float, np.ndarray]:
    """Searches a grid that closes in on its best point; the logarithm of the likelihood, and the weights."""
    best = (-math.inf, np.asarray(centre))
    width = np.asarray(width)
    for _ in range(_ROUNDS):
        axes = [
            np.unique(np.linspace(c - w, c + w, _GRID).clip(lo, hi)) for c, w, lo, hi in zip(best[1], width, low, high)
        ]
        tried = np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)
        expected = np.maximum(shapes(tried).dot(probable.T), 1e-300)
        likelihood = np.log(expected / expected.sum(axis=1, keepdims=True)).dot(few)
        at = int(np.argmax(likelihood))
        if likelihood[at] > best[0]:
            best = (float(likelihood[at]), tried[at])
        width = width * _CLOSER
    return best[0], shapes(best[1][None, :])[0]


def _at_least(t: int, means: np.ndarray) -> np.ndarray:
    """Probability that Poisson variables are at least `t`; far from the mean it is 0 or 1."""
    if t <= 1:
        return -np.expm1(-means)
    safe = np.maximum(means, 1e-300)
    first = max(0, t - 1 - int(12 * math.sqrt(t) + 20))  # terms below are nothing unless the mean is small, see there
    below = np.zeros(len(means))
    near = means < t + 12 * math.sqrt(t) + 20
    start = 0 if t < 400 else first
    j = np.arange(start, t)
    log_j = np.array([math.lgamma(one + 1.0) for one in j])
    log_terms = j[:, None] * np.log(safe[near])[None, :] - safe[near][None, :] - log_j[:, None]
    below[near] = np.exp(log_terms).sum(axis=0)
    below[near & (means < start)] = 1.0
    return np.clip(1.0 - below, 0.0, 1.0)


def _log_factorial(most: int) -> np.ndarray:
    """Of 1, 2, … `most`."""
    return np.array([math.lgamma(one + 1.0) for one in range(1, most + 1)])
