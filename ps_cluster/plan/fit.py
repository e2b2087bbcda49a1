"""The growth of ids that a part of a log tells, by the likeliest of a few models.

Rates of ids have a spread that `fit_search.py` finds; ids with more than `FEW` visits have the rate they showed. The
models: all ids are there from the beginning; ids of the same rates also appear on the way and stay (a catalogue that
grows); or ids also come that pass (today's videos), with numbers of visits of a law of their own. Each is fitted to the
cells of `arrivals.py`; a model with more to choose must be clearly likelier.

Where few ids were seen (few for how long each stays at a time), or the best model does not say when they came first,
their visits are no samples of their own (an item stays in a user's history; a user's rows come together, hours apart).
Then only the discovery of ids is fitted: how many came first in each part.
"""

from __future__ import annotations

import numpy as np

from ps_cluster.plan import arrivals
from ps_cluster.plan.arrivals import FEW, MEANS, PARTS
from ps_cluster.plan.curve import Growth, at_least
from ps_cluster.plan.fit_search import SHAPES, Best, likeliest_sum, likelihood_of, searched
from ps_cluster.plan.fitted import FAR, Fitted, allowed, as_counted, at, misfit, range_of, shares_of

_MOST_NEW = 64
_FEW_IDS, _FEW_VISITORS, _LONG_VISIT = 80, 500, 8.0
_CLEARLY = 3.0
"""Of the logarithm of a likelihood."""
_PASSING_CLEARLY = 8.0
_COARSE = 2e-4
"""And more of it for each id: no law holds to the last of a million."""
_MISFIT = 25.0
_DOUBTFUL = 8.0


def growth_of(
    visits: np.ndarray, first: np.ndarray, occurrences: float, scale: float = 1.0, per_visit: float = 1.0
) -> Growth:
    """The growth that a part of a log shows.

    Args:
      visits: of each id that came.
      first: when it came first, as a share of what was read.
      occurrences: in all.
      scale: so many ids stand behind each one counted.
      per_visit: an id's occurrences that come together.
    """
    counted = arrivals.cells(visits, first)
    arrived = counted.sum(axis=0)
    if not arrived.sum():
        return Growth((), (), (), (), float(occurrences), 0.0, per_visit)
    by_discovery = _discovery(arrived)
    fitted, shares = by_discovery, shares_of(visits, first)
    enough = len(visits) >= (_FEW_VISITORS if per_visit > _LONG_VISIT else _FEW_IDS)
    if enough and arrived[PARTS - 4 :].sum() > 0:
        model = _likeliest(counted, visits)
        if misfit(arrived, model.first) < misfit(arrived, by_discovery.first) + allowed(_MISFIT, len(visits)):
            fitted, shares = model, ()
    fitted = as_counted(fitted, len(visits))
    low, high = range_of(fitted, arrived)
    if not shares and misfit(arrived, fitted.first) > misfit(arrived, by_discovery.first) + allowed(
        _DOUBTFUL, len(visits)
    ):
        others = at(by_discovery, FAR) / at(fitted, FAR)
        low, high = (bound(here, there * others) for bound, here, there in
                     zip((min, max), (low, high), range_of(by_discovery, arrived)))  # fmt: skip
    length = max(occurrences, 1.0)
    new = [fitted.linear]
    if fitted.passing.any():
        new = [float(fitted.passing.dot(at_least(times, MEANS))) for times in range(1, _MOST_NEW + 1)]
    used = fitted.ids + fitted.born > 1e-9 * max(fitted.ids.sum() + fitted.born.sum(), 1e-300)
    return Growth(
        rates=tuple(fitted.rates[used] / length),
        ids=tuple(fitted.ids[used] * scale),
        born=tuple(fitted.born[used] * scale / length),
        new=tuple(one * scale / length for one in new),
        occurrences=float(occurrences),
        different=float(len(visits) * scale),
        per_visit=per_visit,
        shares=shares,
        low=low,
        high=high,
    )


def mixed_growth_of(counts: np.ndarray, occurrences: float, scale: float = 1.0) -> Growth:
    """The growth if all occurrences were mixed, so that none come together and none are new."""
    row = np.bincount(np.minimum(counts, FEW + 1) - 1, minlength=FEW + 1).astype(float)
    fitted = _all_lasting(row[:, None] * np.ones(1), counts, mixed=True)
    length = max(occurrences, 1.0)
    return Growth(
        tuple(fitted.rates / length), tuple(fitted.ids * scale), (0.0,) * len(fitted.rates), (),
        float(occurrences), float(len(counts) * scale),
    )  # fmt: skip


# --- Models ------------------------------------------------------------------------------------------------------


def _likeliest(counted: np.ndarray, visits: np.ndarray) -> Fitted:
    lasting = _all_lasting(counted, visits)
    growing = _growing(counted, visits)
    ids = len(visits)
    best = growing if growing.likelihood > lasting.likelihood + _CLEARLY + _COARSE * ids else lasting
    # Ids that pass come first too late for how often they come, as those do that appear and stay.
    if best is growing or misfit(counted.sum(axis=0), lasting.first) > allowed(_MISFIT, ids):
        passing = _with_passing(counted, visits)
        if passing.likelihood > best.likelihood + _PASSING_CLEARLY + _COARSE * ids:
            best = passing
    return best


def _all_lasting(counted: np.ndarray, visits: np.ndarray, mixed: bool = False) -> Fitted:
    """mixed: `counted` is by visits only."""
    often, number = arrivals.many(visits)
    of_means = arrivals.lasting(MEANS)[:, :FEW]
    few = counted[:FEW]
    if mixed:
        of_means, few = of_means.sum(axis=2, keepdims=True), few[:, :1]
    of_means = of_means.reshape(len(MEANS), -1)
    seen, ids = few.ravel(), few.sum()
    later = -np.expm1(-MEANS * FAR)

    def judged(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        expected = weights.dot(of_means)
        scale = ids / np.maximum(expected.sum(axis=1), 1e-300)
        return likelihood_of(expected, seen), scale[:, None], weights.dot(later) * scale + number.sum()

    best = searched(judged)
    of_law = best.weights * best.told[0] if ids else np.zeros(len(MEANS))
    number = _beside(of_law, number)
    rates, all_ids = np.append(MEANS, often), np.append(of_law, number)
    first = all_ids.dot(arrivals.discovered(rates))
    # Compared with models that also say where ids with many visits came first.
    many_seen = counted[FEW]
    many_first = number.dot(arrivals.discovered(often)) if len(often) else np.zeros(PARTS)
    together = np.append(of_law.dot(of_means), many_first) if not mixed else np.ones(1)
    likelihood = float(likelihood_of(together[None], np.append(seen, many_seen))[0]) if not mixed else best.likelihood
    zeros = np.zeros(len(rates))
    return Fitted(likelihood, rates, all_ids, zeros, np.zeros(len(MEANS)), 0.0, first, tuple(best.tries))


def _growing(counted: np.ndarray, visits: np.ndarray) -> Fitted:
    """Ids of a law, of which some are there from the beginning and others appear, in a constant ratio at all rates."""
    often, number = arrivals.many(visits)
    few = slice(0, FEW * PARTS)
    seen, ids = counted.ravel(), counted[:FEW].sum()
    from_start, appearing = _flat(arrivals.lasting(MEANS)), _flat(arrivals.born(MEANS))
    from_start[:, FEW * PARTS :] = appearing[:, FEW * PARTS :] = 0.0
    often_appearing = _flat(arrivals.born(often))
    often_from_start = np.zeros_like(often_appearing)
    often_from_start[:, FEW * PARTS :] = arrivals.discovered(often)
    later = -np.expm1(-MEANS * FAR)
    later_appearing = FAR - later / MEANS
    best, ratio = Best(), 0.0
    for turn in range(4):
        # Of those that came often some appeared; what is left were there. More of the same come with them.
        there = number / (1 + ratio * np.maximum(1 - FEW / np.maximum(often, FEW), 0.0))
        sure, sure_appearing = there.dot(often_from_start), there.dot(often_appearing)

        def judged(weights: np.ndarray, ratio=ratio, sure=sure, sure_appearing=sure_appearing, there=there):
            a, b = weights.dot(from_start), weights.dot(appearing)
            scale = (ids - ratio * sure_appearing[few].sum()) / np.maximum(a.sum(1) + ratio * b.sum(1), 1e-12)
            scale = np.maximum(scale, 1e-9)[:, None]
            likelihood, found, whole = likeliest_sum(scale * a + sure, scale * b + sure_appearing, seen)
            scale = scale[:, 0] * whole
            ids_later = scale * (weights.dot(later) + found * weights.dot(later_appearing))
            ids_later += whole * there.sum() * (1 + found * FAR)
            return likelihood, np.stack([found, scale, whole], axis=1), ids_later

        best = searched(judged, 24 if not turn else 12)
        before, (ratio, scale, whole) = ratio, best.told
        ratio = min(float(ratio), 1e6)
        if abs(ratio - before) < 0.02 * max(before, 0.01):
            break
    of_law = best.weights * scale
    all_ids = np.append(of_law, _beside(of_law, there * whole))
    rates = np.append(MEANS, often)
    pattern = np.concatenate([from_start, often_from_start]) + ratio * np.concatenate([appearing, often_appearing])
    first = all_ids.dot(pattern).reshape(FEW + 1, PARTS).sum(axis=0)
    return Fitted(best.likelihood, rates, all_ids, all_ids * ratio, np.zeros(len(MEANS)), 0.0, first, tuple(best.tries))


def _beside(of_law: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Ids with many visits, the rarest first, but for those that the law itself has: they are not there twice."""
    of_both = of_law.dot(at_least(FEW + 1, MEANS))
    left = np.maximum(number.cumsum() - of_both, 0.0)
    return np.diff(left, prepend=0.0)


def _with_passing(counted: np.ndarray, visits: np.ndarray) -> Fitted:
    """Ids of a law from the beginning, and ids that pass, whose visits have a law of their own."""
    seen = counted.ravel()
    of_lasting, of_passing = _flat(arrivals.lasting(MEANS)), _flat(arrivals.passing(MEANS))
    later, once = -np.expm1(-MEANS * FAR), -np.expm1(-MEANS)
    found: list[tuple[Best, np.ndarray, np.ndarray]] = []
    for lasting_shape in SHAPES:
        for passing_shape in SHAPES:
            passing = np.zeros(len(MEANS))
            passing[int(np.searchsorted(MEANS, 2.0))] = 1.0
            lasting = np.zeros(len(MEANS))
            best = Best()
            for _ in range(3):

                def of_lasting_tried(weights: np.ndarray, passing=passing):
                    a, b = weights.dot(of_lasting), np.broadcast_to(passing.dot(of_passing), (len(weights), len(seen)))
                    likelihood, ratio, whole = likeliest_sum(a, b, seen)
                    ids_later = whole * (weights.dot(later) + ratio * passing.dot(once) * FAR)
                    return likelihood, np.stack([ratio, whole], axis=1), ids_later

                lasting = searched(of_lasting_tried, 12, (lasting_shape,)).weights

                def of_passing_tried(weights: np.ndarray, lasting=lasting):
                    a, b = np.broadcast_to(lasting.dot(of_lasting), (len(weights), len(seen))), weights.dot(of_passing)
                    likelihood, ratio, whole = likeliest_sum(a, b, seen)
                    ids_later = whole * (lasting.dot(later) + ratio * weights.dot(once) * FAR)
                    return likelihood, np.stack([ratio, whole], axis=1), ids_later

                best = searched(of_passing_tried, 12, (passing_shape,))
                passing = best.weights
            found.append((best, lasting, passing))
    best, lasting, passing = max(found, key=lambda one: one[0].likelihood)
    ratio, whole = best.told
    ids, new = lasting * whole, passing * whole * ratio
    first = (ids.dot(of_lasting) + new.dot(of_passing)).reshape(FEW + 1, PARTS).sum(axis=0)
    tries = [one for model, _, _ in found for one in model.tries]
    return Fitted(best.likelihood, MEANS, ids, np.zeros(len(MEANS)), new, float(new.dot(once)), first, tuple(tries))


def _discovery(arrived: np.ndarray) -> Fitted:
    """Only from how many came first in each part: ids of a law and, where that is clearly likelier, others at a
    constant rate."""
    patterns = arrivals.discovered(MEANS)
    later = -np.expm1(-MEANS * FAR)
    even = arrivals.evenly()

    def alone(weights: np.ndarray):
        expected = weights.dot(patterns)
        scale = arrived.sum() / np.maximum(expected.sum(axis=1), 1e-300)
        return likelihood_of(expected, arrived), np.stack([0 * scale, scale], axis=1), weights.dot(later) * scale

    def with_even(weights: np.ndarray):
        likelihood, ratio, whole = likeliest_sum(
            weights.dot(patterns), np.broadcast_to(even, (len(weights), PARTS)), arrived
        )
        return likelihood, np.stack([ratio, whole], axis=1), whole * (weights.dot(later) + ratio * FAR)

    best, more = searched(alone), searched(with_even)
    tries = tuple(best.tries + more.tries)
    best = more if more.likelihood > best.likelihood + _CLEARLY else best
    ratio, whole = best.told
    ids = best.weights * whole
    first = ids.dot(patterns) + ratio * whole * even
    zeros = np.zeros(len(MEANS))
    return Fitted(best.likelihood, MEANS, ids, zeros, zeros, float(ratio * whole), first, tries)


def _flat(patterns: np.ndarray) -> np.ndarray:
    return patterns.reshape(len(patterns), (FEW + 1) * PARTS)
