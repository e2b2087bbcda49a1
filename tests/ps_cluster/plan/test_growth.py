"""How many ids a log will have is told from its first tenth, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from ps_cluster.plan.calendar import CalendarColumn
from ps_cluster.plan.curve import ids_at_least, most_between
from ps_cluster.plan.sampled_ids import Mixing, SampledIds

ROWS = 300_000
STRIPE = 10_000


def zipf(random: np.random.Generator, ids: int, exponent: float, count: int) -> np.ndarray:
    weights = np.cumsum(np.arange(1, ids + 1.0) ** -exponent)
    return np.searchsorted(weights / weights[-1], random.random(count)).astype(np.int64)


def growing(random: np.random.Generator, count: int) -> np.ndarray:
    """Half of the ids are there from the beginning, the others appear evenly and stay; until then id 0 comes."""
    drawn = zipf(random, 20_000, 0.9, count)
    return np.where(2 * (drawn * 7919 % 1000) / 1000 - 1 <= np.arange(count) / count, drawn, 0)


def fresh(random: np.random.Generator, count: int) -> np.ndarray:
    """Half of the ids last; the others are those of a day, of which there are 100."""
    day = np.arange(count) * 100 // count
    return np.where(
        random.random(count) < 0.5, zipf(random, 20_000, 1.0, count) + 10**9, zipf(random, 500, 1.0, count) + 500 * day
    )


LOGS = {
    "Zipf without an end": lambda random, count: zipf(random, 3_000_000, 1.05, count),
    "Zipf with an end": lambda random, count: zipf(random, 30_000, 0.8, count),
    "all alike": lambda random, count: random.integers(0, 100_000, count),
    "log-normal": lambda random, count: np.searchsorted(
        (w := np.cumsum(np.random.default_rng(3).lognormal(0, 2, 100_000))) / w[-1], random.random(count)
    ).astype(np.int64),
    "new ones every day": fresh,
    "a catalogue that grows": growing,
    "a column of 24 values": lambda random, count: random.integers(0, 24, count),
}


def seen_in(
    ids: np.ndarray, limit: int = 2**20, mixing: Mixing | None = None, leads: np.ndarray | None = None
) -> SampledIds:
    """leads: which ids are of a feature that leads; others stand in the row of the id before them."""
    leads = np.ones(len(ids), bool) if leads is None else leads
    rows = np.cumsum(leads) - 1
    seen = SampledIds(limit, mixing or Mixing(1024, 65_536, 2, int(leads.sum())))
    for start in range(0, rows[-1] + 1, STRIPE):
        some = slice(*np.searchsorted(rows, [start, start + STRIPE]))
        count = int(leads[some].sum())
        seen.add(ids[some], rows[some] - start, leads[some], count, look_for_hot=True)
    return seen


@pytest.mark.parametrize("name", LOGS)
def test_ids_at_the_end_are_told_from_the_first_tenth_within_a_tenth(name: str) -> None:
    ids = LOGS[name](np.random.default_rng(1), ROWS)
    counts = np.unique(ids, return_counts=True)[1]
    growth = seen_in(ids[: ROWS // 10]).growth()
    for threshold in (1, 2, 3):
        real = np.count_nonzero(counts >= threshold)
        assert growth.at(ROWS, threshold) == pytest.approx(real, rel=0.1), threshold
    low, high = growth.range(ROWS)
    assert low <= len(counts) <= high


@pytest.mark.parametrize(
    ("exponent", "ids", "count", "thresholds"),
    [(0.8, 500_000, 3_000_000, (1, 4, 10)), (0.8, 4_000_000, 2_000_000, (1, 2, 4)), (0.35, 24_000, 245_760, (1, 2, 4))],
    ids=["often", "most of them once", "nearly alike"],
)
def test_a_law_of_many_ids_is_found_however_steep_it_is(
    exponent: float, ids: int, count: int, thresholds: tuple[int, ...]
) -> None:
    u, power = np.random.default_rng(9).random(count), 1 - exponent
    drawn = np.minimum((1 + u * ((ids + 1.0) ** power - 1)) ** (1 / power), ids).astype(np.int64)  # Zipf's law
    counts = np.bincount(drawn)
    growth = seen_in(drawn[: count // 10]).growth()
    for threshold in thresholds:
        real = np.count_nonzero(counts >= threshold)
        assert growth.at(count, threshold) == pytest.approx(real, rel=0.04), threshold


def test_a_history_that_repeats_what_was_shown_does_not_change_the_forecast() -> None:
    random = np.random.default_rng(10)
    shown = growing(random, ROWS)
    last = np.maximum(np.arange(ROWS) - random.integers(1, 2000, ROWS), 0)
    ids = np.stack([shown, shown[last], shown[last // 2]], axis=1).ravel()
    leads = np.tile([True, False, False], ROWS)
    growth = seen_in(ids[: len(ids) // 10], leads=leads[: len(ids) // 10]).growth()
    assert growth.at(len(ids)) == pytest.approx(len(np.unique(shown)), rel=0.1)


@pytest.mark.parametrize(("cycle", "hours", "values"), [("hour", 30, 24), ("hour", 9, 24), ("weekday", 100, 7)])
@pytest.mark.parametrize("zone", [0, 2, -5])
def test_a_part_of_the_calendar_has_the_calendars_values(cycle: str, hours: int, values: int, zone: int) -> None:
    times = 1_704_000_000 + np.arange(0, hours * 3600, 40)
    local = times + zone * 3600
    ids = local // 3600 % 24 + 1 if cycle == "hour" else (local // 86_400 + 3) % 7
    column = CalendarColumn()
    for part in np.array_split(np.arange(len(times)), 5):
        column.add(ids[part], times[part])
    found = column.cycle()
    assert found is not None and found.values == values


def test_what_only_looks_like_a_calendar_is_none() -> None:
    times = 1_704_000_000 + np.arange(0, 30 * 3600, 40)
    for ids in (times // 3600, np.arange(len(times)) % 24, np.full(len(times), 5)):
        column = CalendarColumn()
        column.add(ids, times)
        assert column.cycle() is None


@pytest.mark.parametrize("name", LOGS)
def test_what_was_read_is_told_as_it_is(name: str) -> None:
    ids = LOGS[name](np.random.default_rng(2), ROWS // 4)
    growth = seen_in(ids).growth()
    assert growth.at(len(ids)) == pytest.approx(len(np.unique(ids)), rel=0.02)


def test_memory_is_bounded_and_the_count_stays_within_its_error() -> None:
    ids = np.random.default_rng(4).integers(0, 2**62, 300_000)
    seen = seen_in(ids, limit=20_000)
    assert len(seen._ids) <= 20_000
    assert seen.scale >= 16
    assert abs(seen.different / 300_000 - 1) < 2 * seen.relative_error
    assert seen_in(ids[:15_000], limit=20_000).different == 15_000


def test_the_most_frequent_ids_are_found_with_their_shares() -> None:
    random = np.random.default_rng(5)
    ids = np.where(random.random(100_000) < 0.2, 77, random.integers(1000, 10**6, 100_000))
    (first, share), *_ = seen_in(ids).hot(3)
    assert first == 77
    assert share == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("order", ["mixed", "by user"])
@pytest.mark.parametrize("window", [0, 20_000, 10**6])
def test_ids_of_a_batch_are_those_of_batches_that_are_drawn(order: str, window: int) -> None:
    random = np.random.default_rng(6)
    rows, batch, slices = 100_000, 1000, 2
    ids = zipf(random, 8_000, 0.7, rows)
    if order == "by user":
        ids = np.sort(ids)
    seen = seen_in(ids, mixing=Mixing(batch, window, slices, rows))
    if window:
        parts = [ids[start + s : start + STRIPE : slices] for start in range(0, rows, STRIPE) for s in range(slices)]
        drawn = []
        for _ in range(400):
            some = random.permutation(len(parts))[: max(window * slices // STRIPE, 1)]
            mixed = np.concatenate([parts[n] for n in some])[:window]
            drawn.append(len(np.unique(random.choice(mixed, batch, replace=False))))
    else:
        drawn = [len(np.unique(ids[start : start + batch])) for start in range(0, rows, batch)]
    assert seen.in_a_batch() == pytest.approx(np.mean(drawn), rel=0.03)


def test_ids_at_least_is_a_sum_over_poisson_variables() -> None:
    random = np.random.default_rng(7)
    rates, ids = np.array([0.5, 3.0, 40.0]), np.array([10.0, 5.0, 2.0])
    for threshold in (1, 2, 7, 39):
        drawn = random.poisson(rates, (200_000, 3)) >= threshold
        told = ids_at_least(1.0, threshold, rates, ids, np.zeros(3), 0.25)
        assert told == pytest.approx(drawn.mean(0) @ ids + 0.25, abs=0.03)
    assert ids_at_least(0.0, 1, rates, ids, np.zeros(3), 0.25) == 0.0
    assert ids_at_least(1e6, 1000, [1.0], [4.0], [0.0], 0.0) == pytest.approx(4.0)
    assert ids_at_least(10.0, 1000, [1.0], [4.0], [0.0], 0.0) == pytest.approx(0.0)


def test_ids_that_appear_on_the_way_come_as_often_as_their_time_allows() -> None:
    random = np.random.default_rng(8)
    for rate in (0.3, 6.0, 300.0):
        since = random.random(200_000) * rate
        drawn = random.poisson(since)
        for threshold in (1, 3, 250):
            told = ids_at_least(1.0, threshold, [rate], [0.0], [2.0], 0.0)
            assert told == pytest.approx(2 * np.mean(drawn >= threshold), abs=0.02)


def test_rows_of_a_tier_are_most_on_the_way() -> None:
    rates, ids = np.array([1.0, 10.0]), np.array([100.0, 50.0])
    most = most_between(20.0, 1, 4, rates, ids, np.zeros(2), 0.0, 0.0)
    told = [
        ids_at_least(n, 1, rates, ids, np.zeros(2), 0.0) - ids_at_least(n, 4, rates, ids, np.zeros(2), 0.0)
        for n in np.linspace(0.01, 20, 2000)
    ]
    assert most == pytest.approx(max(told), rel=0.01)
    assert most > 2 * told[-1]
