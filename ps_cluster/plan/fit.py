"""The growth of ids that a part of a log tells, by the likeliest of a few models.

Rates of ids are spread like a power law between a least and a largest one (Zipf's law for so many ids) or log-normally;
ids with more than `FEW` visits have the rate they showed. The models: all ids are there from the beginning; ids of the
same rates also appear on the way and stay (a catalogue that grows); or ids also come that pass (today's videos), with
numbers of visits of a law of their own. Each is fitted to the cells of `arrivals.py`; a model with more to choose must
be clearly likelier.

Where few ids were seen (few for how long each stays at a time), or the best model does not say when they came first,
their visits are no samples of their own (an item stays in a user's history; a user's rows come together, hours apart).
Then only the discovery of ids is fitted: how many came first in each part.

Every set of parameters that was tried and is nearly as likely as the best speaks for the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ps_cluster.plan import arrivals
from ps_cluster.plan.arrivals import FEW, LOG_MEANS, MEANS, PARTS
from ps_cluster.plan.curve import Growth, at_least

FAR = 10.0
"""The range is told for so many times what was read."""
_MOST_NEW = 64
_FEW_IDS, _FEW_VISITORS, _LONG_VISIT = 80, 500, 8.0
_CLEARLY = 3.0
"""Of the logarithm of a likelihood."""
_PASSING_CLEARLY = 8.0
_COARSE = 2e-4
"""And more of it for each id: no law holds to the last of a million."""
_NEARLY = 2.5
_MISFIT = 25.0
_DOUBTFUL = 8.0
_MISFIT_OF_AN_ID = 2e-3
_ROUGH = 0.08
"""No log follows a law: the ids to come are known no better than this."""
_OFTEN = 1e3
_ENDED = 5
"""Where fewer ids than this came first in the second half, they may have been the last."""


@dataclass(frozen=True)
class _Shape:
    """weights: of tries `[tries, parameters]` at each of `MEANS`, `[tries, means]`. The others: of the search."""

    weights: Callable[[np.ndarray], np.ndarray]
    centre: tuple[float, ...]
    width: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    points: int


@dataclass
class _Best:
    """likelihood: its logarithm. told: what the model keeps of its best try. tries: logarithm of the likelihood, and
    ids at `FAR` times what was read, of all that were tried."""

    likelihood: float = -math.inf
    weights: np.ndarray = field(default_factory=lambda: np.zeros(len(MEANS)))
    told: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tries: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)


@dataclass(frozen=True)
class _Fitted:
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
    fitted, shares = by_discovery, _shares(visits, first)
    enough = len(visits) >= (_FEW_VISITORS if per_visit > _LONG_VISIT else _FEW_IDS)
    if enough and arrived[PARTS - 4 :].sum() > 0:
        model = _likeliest(counted, visits)
        if _misfit(arrived, model.first) < _misfit(arrived, by_discovery.first) + _allowed(_MISFIT, len(visits)):
            fitted, shares = model, ()
    fitted = _as_counted(fitted, len(visits))
    low, high = _range(fitted, arrived)
    if not shares and _misfit(arrived, fitted.first) > _misfit(arrived, by_discovery.first) + _allowed(
        _DOUBTFUL, len(visits)
    ):
        others = _at(by_discovery, FAR) / _at(fitted, FAR)
        low, high = (bound(here, there * others) for bound, here, there in
                     zip((min, max), (low, high), _range(by_discovery, arrived)))  # fmt: skip
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


def _likeliest(counted: np.ndarray, visits: np.ndarray) -> _Fitted:
    lasting = _all_lasting(counted, visits)
    growing = _growing(counted, visits)
    ids = len(visits)
    best = growing if growing.likelihood > lasting.likelihood + _CLEARLY + _COARSE * ids else lasting
    # Ids that pass come first too late for how often they come, as those do that appear and stay.
    if best is growing or _misfit(counted.sum(axis=0), lasting.first) > _allowed(_MISFIT, ids):
        passing = _with_passing(counted, visits)
        if passing.likelihood > best.likelihood + _PASSING_CLEARLY + _COARSE * ids:
            best = passing
    return best


def _all_lasting(counted: np.ndarray, visits: np.ndarray, mixed: bool = False) -> _Fitted:
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
        return _likelihood(expected, seen), scale[:, None], weights.dot(later) * scale + number.sum()

    best = _searched(judged)
    of_law = best.weights * best.told[0] if ids else np.zeros(len(MEANS))
    number = _beside(of_law, number)
    rates, all_ids = np.append(MEANS, often), np.append(of_law, number)
    first = all_ids.dot(arrivals.discovered(rates))
    # Compared with models that also say where ids with many visits came first.
    many_seen = counted[FEW]
    many_first = number.dot(arrivals.discovered(often)) if len(often) else np.zeros(PARTS)
    together = np.append(of_law.dot(of_means), many_first) if not mixed else np.ones(1)
    likelihood = float(_likelihood(together[None], np.append(seen, many_seen))[0]) if not mixed else best.likelihood
    zeros = np.zeros(len(rates))
    return _Fitted(likelihood, rates, all_ids, zeros, np.zeros(len(MEANS)), 0.0, first, tuple(best.tries))


def _growing(counted: np.ndarray, visits: np.ndarray) -> _Fitted:
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
    best, ratio = _Best(), 0.0
    for turn in range(4):
        # Of those that came often some appeared; what is left were there. More of the same come with them.
        there = number / (1 + ratio * np.maximum(1 - FEW / np.maximum(often, FEW), 0.0))
        sure, sure_appearing = there.dot(often_from_start), there.dot(often_appearing)

        def judged(weights: np.ndarray, ratio=ratio, sure=sure, sure_appearing=sure_appearing, there=there):
            a, b = weights.dot(from_start), weights.dot(appearing)
            scale = (ids - ratio * sure_appearing[few].sum()) / np.maximum(a.sum(1) + ratio * b.sum(1), 1e-12)
            scale = np.maximum(scale, 1e-9)[:, None]
            likelihood, found, whole = _two(scale * a + sure, scale * b + sure_appearing, seen)
            scale = scale[:, 0] * whole
            ids_later = scale * (weights.dot(later) + found * weights.dot(later_appearing))
            ids_later += whole * there.sum() * (1 + found * FAR)
            return likelihood, np.stack([found, scale, whole], axis=1), ids_later

        best = _searched(judged, 24 if not turn else 12)
        before, (ratio, scale, whole) = ratio, best.told
        ratio = min(float(ratio), 1e6)
        if abs(ratio - before) < 0.02 * max(before, 0.01):
            break
    of_law = best.weights * scale
    all_ids = np.append(of_law, _beside(of_law, there * whole))
    rates = np.append(MEANS, often)
    pattern = np.concatenate([from_start, often_from_start]) + ratio * np.concatenate([appearing, often_appearing])
    first = all_ids.dot(pattern).reshape(FEW + 1, PARTS).sum(axis=0)
    return _Fitted(
        best.likelihood, rates, all_ids, all_ids * ratio, np.zeros(len(MEANS)), 0.0, first, tuple(best.tries)
    )


def _beside(of_law: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Ids with many visits, the rarest first, but for those that the law itself has: they are not there twice."""
    of_both = of_law.dot(at_least(FEW + 1, MEANS))
    left = np.maximum(number.cumsum() - of_both, 0.0)
    return np.diff(left, prepend=0.0)


def _with_passing(counted: np.ndarray, visits: np.ndarray) -> _Fitted:
    """Ids of a law from the beginning, and ids that pass, whose visits have a law of their own."""
    seen = counted.ravel()
    of_lasting, of_passing = _flat(arrivals.lasting(MEANS)), _flat(arrivals.passing(MEANS))
    later, once = -np.expm1(-MEANS * FAR), -np.expm1(-MEANS)
    found: list[tuple[_Best, np.ndarray, np.ndarray]] = []
    for lasting_shape in _SHAPES:
        for passing_shape in _SHAPES:
            passing = np.zeros(len(MEANS))
            passing[int(np.searchsorted(MEANS, 2.0))] = 1.0
            lasting = np.zeros(len(MEANS))
            best = _Best()
            for _ in range(3):

                def of_lasting_tried(weights: np.ndarray, passing=passing):
                    a, b = weights.dot(of_lasting), np.broadcast_to(passing.dot(of_passing), (len(weights), len(seen)))
                    likelihood, ratio, whole = _two(a, b, seen)
                    ids_later = whole * (weights.dot(later) + ratio * passing.dot(once) * FAR)
                    return likelihood, np.stack([ratio, whole], axis=1), ids_later

                lasting = _searched(of_lasting_tried, 12, (lasting_shape,)).weights

                def of_passing_tried(weights: np.ndarray, lasting=lasting):
                    a, b = np.broadcast_to(lasting.dot(of_lasting), (len(weights), len(seen))), weights.dot(of_passing)
                    likelihood, ratio, whole = _two(a, b, seen)
                    ids_later = whole * (lasting.dot(later) + ratio * weights.dot(once) * FAR)
                    return likelihood, np.stack([ratio, whole], axis=1), ids_later

                best = _searched(of_passing_tried, 12, (passing_shape,))
                passing = best.weights
            found.append((best, lasting, passing))
    best, lasting, passing = max(found, key=lambda one: one[0].likelihood)
    ratio, whole = best.told
    ids, new = lasting * whole, passing * whole * ratio
    first = (ids.dot(of_lasting) + new.dot(of_passing)).reshape(FEW + 1, PARTS).sum(axis=0)
    tries = [one for model, _, _ in found for one in model.tries]
    return _Fitted(best.likelihood, MEANS, ids, np.zeros(len(MEANS)), new, float(new.dot(once)), first, tuple(tries))


def _discovery(arrived: np.ndarray) -> _Fitted:
    """Only from how many came first in each part: ids of a law and, where that is clearly likelier, others at a
    constant rate."""
    patterns = arrivals.discovered(MEANS)
    later = -np.expm1(-MEANS * FAR)
    even = arrivals.evenly()

    def alone(weights: np.ndarray):
        expected = weights.dot(patterns)
        scale = arrived.sum() / np.maximum(expected.sum(axis=1), 1e-300)
        return _likelihood(expected, arrived), np.stack([0 * scale, scale], axis=1), weights.dot(later) * scale

    def with_even(weights: np.ndarray):
        likelihood, ratio, whole = _two(weights.dot(patterns), np.broadcast_to(even, (len(weights), PARTS)), arrived)
        return likelihood, np.stack([ratio, whole], axis=1), whole * (weights.dot(later) + ratio * FAR)

    best, more = _searched(alone), _searched(with_even)
    tries = tuple(best.tries + more.tries)
    best = more if more.likelihood > best.likelihood + _CLEARLY else best
    ratio, whole = best.told
    ids = best.weights * whole
    first = ids.dot(patterns) + ratio * whole * even
    zeros = np.zeros(len(MEANS))
    return _Fitted(best.likelihood, MEANS, ids, zeros, zeros, float(ratio * whole), first, tries)


# --- Searching ---------------------------------------------------------------------------------------------------


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
_SHAPES = (
    _Shape(_power_law, (2.5, _MIDDLE, _LAST), (2.5, _HALF, _HALF), (0.0, _FIRST, _FIRST), (5.0, _LAST, _LAST), 11),
    _Shape(_log_normal, (0.0, 2.0), (_HALF, 2.0), (_FIRST, 0.1), (_LAST, 4.0), 13),
)
_CLOSER = 0.7
_GRIDS, _ELITE, _DRAWN, _WIDER = 2, 25, 300, 2.0


def _searched(judged: Callable, rounds: int = 24, shapes: Sequence[_Shape] = _SHAPES) -> _Best:
    """Searches grids, then clouds that are drawn with the covariance of the best points so far: the likelihood has
    narrow ridges, oblique to the axes, along which a grid that closes in on its best point comes to a halt."""
    found = []
    for shape in shapes:
        low, high = np.asarray(shape.low), np.asarray(shape.high)
        centre, width = np.asarray(shape.centre), np.asarray(shape.width)
        best = _Best()
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


def _likelihood(expected: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Logarithms, of `expected` `[tries, cells]` as shares of the ids seen."""
    used = seen > 0
    whole = np.maximum(expected.sum(axis=1, keepdims=True), 1e-300)
    return np.log(np.maximum(expected[:, used] / whole, 1e-300)).dot(seen[used])


def _two(a: np.ndarray, b: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def _flat(patterns: np.ndarray) -> np.ndarray:
    return patterns.reshape(len(patterns), (FEW + 1) * PARTS)


# --- Judging -----------------------------------------------------------------------------------------------------


def _misfit(seen: np.ndarray, expected: np.ndarray) -> float:
    """Deviance: about the number of parts where the model holds."""
    some = seen > 0
    parts = seen[some] * np.log(seen[some] / np.maximum(expected[some], 1e-9))
    return float(2 * (parts.sum() + expected.sum() - seen.sum()))


def _allowed(misfit: float, ids: int) -> float:
    return misfit + _MISFIT_OF_AN_ID * ids


def _shares(visits: np.ndarray, first: np.ndarray) -> tuple[float, ...]:
    """Of ids that came first in the first half, so many have come 1, 2, … times."""
    early = visits[first <= 0.5]
    if not len(early):
        return (1.0,)
    most = int(min(early.max(), 4096))
    found = np.bincount(np.minimum(early, most), minlength=most + 1)[::-1].cumsum()[::-1][1:] / len(early)
    return tuple(float(one) for one in found)


def _range(fitted: _Fitted, arrived: np.ndarray) -> tuple[float, float]:
    best = max(float(likelihood.max()) for likelihood, _ in fitted.tries)
    nearly = np.concatenate([later[likelihood > best - _NEARLY] for likelihood, later in fitted.tries])
    told = _at(fitted, FAR)
    low, high = min(float(nearly.min()) / told, 1.0), max(float(nearly.max()) / told, 1.0)
    # Ids to come vary, and do so more where those seen did.
    coming = max(told - arrived.sum(), 0.0) / told
    varied = math.sqrt(max(_misfit(arrived, fitted.first) / PARTS, 1.0))
    chance = _ROUGH * coming + 2 * varied * math.sqrt(coming * told + 1) / told
    low, high = low - chance, high + chance
    least = arrived.sum() / told
    if arrived[PARTS - 4 :].sum() < _ENDED:
        low = least
    return max(low, least), high


def _as_counted(fitted: _Fitted, ids: int) -> _Fitted:
    """At the end of what was read there are the ids that were counted: what a model lacks has come for sure."""
    lacking = ids - _at(fitted, 1.0)
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


def _at(fitted: _Fitted, far: float) -> float:
    """Ids at so many times what was read."""
    there = -np.expm1(-fitted.rates * far)
    return float(fitted.ids.dot(there) + fitted.born.dot(far - there / fitted.rates) + fitted.linear * far)
