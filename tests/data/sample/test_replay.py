"""Replay rates against a search over the one free number, and against what they are meant to reach."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from data.sample.replay import LEAST_RATE, solve, steps

DAYS = st.lists(st.floats(0, 1e6) | st.just(0.0), min_size=1, max_size=40)


def shape(count: int, half_life: float, factor: float) -> np.ndarray:
    return np.clip(factor * 2.0 ** (-np.arange(count) / half_life), LEAST_RATE, 1)


@settings(deadline=None, max_examples=200)
@given(DAYS, st.integers(1, 10), st.floats(0.05, 0.95), st.floats(0.3, 60))
def test_rates_are_those_a_search_finds(rows: list[float], newest: int, share: float, half_life: float) -> None:
    rows[0] += 1.0  # the newest row is of day 0
    got = solve(rows, newest, share, half_life)
    older = np.array(rows[newest:])
    assert len(got.rates) == len(rows)
    assert got.rates[:newest] == (1.0,) * min(newest, len(rows))
    wanted = sum(rows[:newest]) * (1 - share) / share
    if older.sum() < wanted:
        assert set(got.rates) == {1.0}
        assert got.problem
        assert got.share == pytest.approx(sum(rows[:newest]) / sum(rows))
        return
    assert got.problem is None
    assert got.share == pytest.approx(share, rel=1e-9)
    low, high = -80.0, 80.0 + len(rows) / half_life
    for _ in range(200):
        middle = (low + high) / 2
        enough = (shape(len(older), half_life, 2.0**middle) * older).sum() >= wanted
        low, high = (low, middle) if enough else (middle, high)
    # Where days are empty or all are at 1, several factors give the same sum: compare what is kept.
    found = shape(len(older), half_life, 2.0**high)
    assume((found[older > 0] > 2 * LEAST_RATE).all())
    np.testing.assert_allclose(np.array(got.rates[newest:]) * older, found * older, rtol=1e-6, atol=1e-6)


@settings(deadline=None, max_examples=100)
@given(DAYS, st.integers(1, 10), st.floats(0.05, 0.95), st.floats(0.3, 60))
def test_older_days_are_kept_less_and_by_half_every_half_life(
    rows: list[float], newest: int, share: float, half_life: float
) -> None:
    rows[0] += 1.0
    rates = solve(rows, newest, share, half_life).rates[newest:]
    for one, next_one in zip(rates, rates[1:]):
        assert 0 < next_one <= one <= 1
        if one < 1 and next_one > LEAST_RATE:
            assert next_one / one == pytest.approx(2 ** (-1 / half_life))


def test_without_older_days_all_is_kept_and_told() -> None:
    got = solve([10.0, 5.0], 7, 0.7, 14)
    assert got.rates == (1.0, 1.0)
    assert got.share == 1
    assert got.problem == "no row is older than 7 days: all rows are kept"


def test_a_time_has_the_rate_of_its_day() -> None:
    got = solve([100.0, 100.0, 80.0, 60.0, 0.0, 40.0], 2, 0.8, 1.5)
    newest, day = 1_000_000, 86_400
    rate = steps(got, "time", newest, day)
    times = np.array([newest - offset for offset in range(0, 6 * day, 977)] + [newest + 5, 0])
    ages = [min(max(newest - int(time), 0) // day, 5) for time in times]
    edges = [newest - age * day + shift for age in range(6) for shift in (0, 1)]
    times = np.append(times, edges)
    ages += [max(newest - edge, 0) // day for edge in edges]
    values = rate.table[rate.positions({"time": pa.array(times)}, len(times))]
    assert values.tolist() == [got.rates[min(age, 5)] for age in ages]
