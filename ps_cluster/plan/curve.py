"""How many ids of a table have come, how often, after any number of occurrences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Growth:
    """Ids of a table as a function of occurrences; `fit.py` says how it is told from a part of a log.

    rates, ids: so many ids, which were there from the beginning, come at such a rate: visits of theirs per occurrence
    of any. born: of the same rates, ids that appear for each occurrence of any, and then stay. new: by `t` from 1 on,
    ids that come at least `t` times in a short while and never again, per occurrence; the last one holds for more.
    shares: where how often ids come is no guide to when they came first, only the latter is what the rates tell of, and
    of the ids so many reach 1, 2, … visits; else empty.
    occurrences, different: what was read. per_visit: an id's occurrences that come together.
    low, high: of 20 logs 19 should have, at ten times what was read, at least and at most so many times what is told.
    """

    rates: tuple[float, ...]
    ids: tuple[float, ...]
    born: tuple[float, ...]
    new: tuple[float, ...]
    occurrences: float
    different: float
    per_visit: float = 1.0
    shares: tuple[float, ...] = ()
    low: float = 1.0
    high: float = 1.0

    def visits(self, occurrences: int) -> int:
        """Visits that bring so many occurrences."""
        return max(math.ceil(occurrences / self.per_visit - 1e-9), 1)

    def new_at_least(self, visits: int) -> float:
        return self.new[min(visits, len(self.new)) - 1] if self.new else 0.0

    def share(self, visits: int) -> float:
        return self.shares[min(visits, len(self.shares)) - 1] if self.shares else 1.0

    def times(self, threshold: int) -> int:
        """What `ids_at_least` is to be asked for."""
        return 1 if self.shares else self.visits(threshold)

    def at(self, occurrences: float, threshold: int = 1) -> float:
        """Ids that have come at least `threshold` times."""
        times = self.times(threshold)
        found = ids_at_least(occurrences, times, self.rates, self.ids, self.born, self.new_at_least(times))
        return found * self.share(self.visits(threshold))

    def range(self, occurrences: float) -> tuple[float, float]:
        """Within which the number of ids should lie: the farther from what was read, the wider."""
        far = math.log10(max(occurrences / max(self.occurrences, 1.0), 1.0))
        found = self.at(occurrences)
        return max(found * self.low**far, min(found, self.different)), found * self.high**far


def all_of(ids: float, occurrences: float) -> Growth:
    """So many ids, all of them from the beginning: of what is known without counting."""
    return Growth((1.0,), (float(ids),), (0.0,), (), occurrences, float(ids))


def ids_at_least(
    n: float, t: float, rates: Sequence[float], ids: Sequence[float], born: Sequence[float], new: float
) -> float:
    """Ids that have come at least `t` times after `n` occurrences: the sum of `ids[k]` times the probability that a
    Poisson variable of mean `rates[k] * n` is at least `t`; of `born[k] * n` times the mean of that probability over
    all means from 0 to `rates[k] * n`; and `new * n`."""
    if n <= 0:
        return 0.0
    means = np.asarray(rates, float) * n
    found = float(np.dot(ids, at_least(int(t), means))) + new * n
    if np.any(np.asarray(born)):
        found += n * float(np.dot(born, _mean_at_least(int(t), means)))
    return found


_MOMENTS = 40


def most_between(
    n: float, least: float, next: float, rates: Sequence[float], ids: Sequence[float], born: Sequence[float],
    new_least: float, new_next: float,
) -> float:  # fmt: skip
    """The most ids, at any time up to `n` occurrences, that have come at least `least` times but not `next` times."""
    return max(
        ids_at_least(some, least, rates, ids, born, new_least) - ids_at_least(some, next, rates, ids, born, new_next)
        for some in (n * k / _MOMENTS for k in range(1, _MOMENTS + 1))
    )


def at_least(t: int, means: np.ndarray) -> np.ndarray:
    """Probability that Poisson variables are at least `t`; far from the mean it is 0 or 1."""
    if t <= 1:
        return -np.expm1(-means)
    safe = np.maximum(means, 1e-300)
    below = np.zeros(len(means))
    near = means < t + 12 * math.sqrt(t) + 20
    first = max(0, t - 1 - int(12 * math.sqrt(t) + 20))
    start = 0 if t < 400 else first
    j = np.arange(start, t)
    log_j = np.array([math.lgamma(one + 1.0) for one in j])
    log_terms = j[:, None] * np.log(safe[near])[None, :] - safe[near][None, :] - log_j[:, None]
    below[near] = np.exp(log_terms).sum(axis=0)
    below[near & (means < start)] = 1.0
    return np.clip(1.0 - below, 0.0, 1.0)


def _mean_at_least(t: int, means: np.ndarray) -> np.ndarray:
    """The mean of `at_least(t, y)` over `y` from 0 to `means`: 1 less the integral of the probabilities below `t`,
    which are integrals of gamma densities."""
    safe = np.maximum(means, 1e-12)
    if t > 200:
        return np.maximum(1 - t / safe, 0.0)
    below = np.zeros(len(means))
    for j in range(t):
        below += at_least(j + 1, safe)
    return np.clip(1 - below / safe, 0.0, 1.0)
