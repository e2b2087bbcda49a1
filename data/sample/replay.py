"""Replay: of the newest days everything, of the older ones a share that halves with age, in a fixed proportion.

Days are counted backwards from the newest time in the data: day 0 is its last 24 hours, whatever the calendar says.
Nothing of the newest `newest_days` days is dropped. The keep rates of the older days are
`min(1, a * 2^(-age / half_life))`, with `a` such that the newest days are the share `newest_share` of the rows that are
left. When all older rows together are too few for that, all are kept, and the share reached is the closest there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from data.errors import DataError
from data.files import open_input
from data.format.tail import read_tail, top_level_columns
from data.sample.sampling import Sampling, Steps, effect
from data.scan.raw_rows import Progress, RawRows, raw_rows
from data.where import Where, mask

MOST_DAYS = 100_000
LEAST_RATE = 2.0**-53
"""Rates do not fall below it: a row is drawn with a number of 53 bits."""
_MOST_TIME = 2**52  # times and the ends of days stay exact in float64


@dataclass(frozen=True)
class Replay:
    """Keep rates by age.

    rates: keep rate of each day, from day 0 to the oldest one with rows. newest_rows, older_rows: rows that are
    expected to be left of the newest days and of the older ones. share: of the newest days among both; asked: the one
    asked for.
    problem: why the share is not the one asked for; None when it is.
    """

    rates: tuple[float, ...]
    newest_days: int
    newest_rows: float
    older_rows: float
    share: float
    asked: float
    problem: str | None


def solve(rows_per_day: Sequence[float], newest_days: int, newest_share: float, half_life_days: float) -> Replay:
    """Keep rates for `rows_per_day[age in days]` rows (an expectation: need not be whole; some above 0).

    Args:
        rows_per_day: by age, from day 0.
        newest_days: at least 1.
        newest_share: above 0, below 1.
        half_life_days: above 0.
    """
    newest, older = rows_per_day[:newest_days], rows_per_day[newest_days:]
    newest_rows, all_older = math.fsum(newest), math.fsum(older)
    wanted = newest_rows * (1 - newest_share) / newest_share
    problem = None
    if not all_older:
        problem = f"no row is older than {newest_days} days: all rows are kept"
        rates = [1.0] * len(older)
    elif all_older < wanted:
        problem = f"the older days have too few rows, {all_older:,.0f} where {wanted:,.0f} are wanted: all are kept"
        rates = [1.0] * len(older)
    else:
        rates = _decaying(older, wanted, half_life_days)
    older_rows = math.fsum(rate * rows for rate, rows in zip(rates, older))
    share = newest_rows / (newest_rows + older_rows) if newest_rows else 0.0
    return Replay((*[1.0] * len(newest), *rates), newest_days, newest_rows, older_rows, share, newest_share, problem)


def _decaying(rows: Sequence[float], wanted: float, half_life_days: float) -> list[float]:
    """`min(1, a * 2^(-day / half_life_days))` by day, with the sum of rate * rows equal to `wanted`."""
    # The days at rate 1 are the first ones. Try 0, 1, 2, … of them: the first fit is the solution, because both the
    # rates of the others and the sum grow with `a`.
    weighted = [0.0] * (len(rows) + 1)  # sum of rows[d] * 2^(-(d - day) / half_life) over d >= day
    step = 2.0 ** (-1.0 / half_life_days)
    for day in reversed(range(len(rows))):
        weighted[day] = rows[day] + step * weighted[day + 1]
    left = wanted
    for day, count in enumerate(rows):
        if left <= weighted[day]:
            first = left / weighted[day] if weighted[day] else 1.0
            decayed = [max(first * 2.0 ** (-(d - day) / half_life_days), LEAST_RATE) for d in range(day, len(rows))]
            return [1.0] * day + decayed
        left -= count
    return [1.0] * len(rows)  # only by rounding


def steps(replay: Replay, column: str, newest_time: int, day_units: int) -> Steps:
    """`replay.rates` as a function of a time column.

    Args:
        column: name of an integer column of times.
        newest_time: the newest time there is; times above count as day 0.
        day_units: 24 hours in the column's unit.
    """
    # Time t is of an age below d days when t > newest - d days, so when t >= newest - d days + 1.
    ages = range(len(replay.rates) - 1, 0, -1)
    bounds = tuple(float(newest_time - age * day_units + 1) for age in ages)
    return Steps(column, bounds, tuple(reversed(replay.rates)))


def newest_time(
    paths: Sequence[str],
    column: str,
    where: Where | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> int:
    """The newest time of all rows that `where` takes.

    Raises `DataError` for a column that is not of integers, when there is no such row, and, unless `skip_bad` says to
    leave them out, for a null in it and for a stripe that cannot be decoded.
    """
    if where is None and (told := _newest_by_statistics(paths, column)) is not None:
        return told
    found = []
    for stripe in raw_rows(paths, names(column, where), progress, skip_bad):
        taken = _times(stripe, column, where, skip_bad)[0]
        if len(taken):
            found.append(int(taken.max()))
    if not found:
        raise DataError(f"{', '.join(paths)}: column {column}: expected at least one row with a time, found none")
    return max(found)


def rows_per_day(
    paths: Sequence[str],
    column: str,
    newest: int,
    day_units: int,
    where: Where | None = None,
    sampling: Sampling | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> list[float]:
    """Rows by age in days, from day 0 to the oldest: of those that `where` takes, as many as `sampling` is expected to
    keep, the sum of the keep probabilities; the same for the same files, bit by bit.

    Raises `DataError` as `newest_time` does, and for a time of more than `MOST_DAYS` days before the newest.
    """
    found = np.zeros(0)
    for stripe in raw_rows(paths, names(column, where, sampling), progress, skip_bad):
        times, taken = _times(stripe, column, where, skip_bad)
        days = np.maximum(newest - times, 0) // day_units
        if len(days) and days.max() >= MOST_DAYS:
            row = int(stripe.numbers[taken][np.argmax(days)])
            raise DataError(
                f"{stripe.path}: column {column}: row {row} (counted from 0): expected a time of at most {MOST_DAYS:,} "
                f"days before the newest, {newest}, found {times[np.argmax(days)]}; is the unit right?"
            )
        keep = effect(sampling, stripe.columns).keep[taken] if sampling else None
        some = np.bincount(days, weights=keep)
        found = np.concatenate([found, np.zeros(max(len(some) - len(found), 0))])
        found[: len(some)] += some
    return found.tolist()


def _newest_by_statistics(paths: Sequence[str], column: str) -> int | None:
    """The newest time by the files' own statistics, where they all have it and no time is null."""
    newest: int | None = None
    for path in paths:
        with open_input(path) as file:
            tail = read_tail(file, path)
        number = top_level_columns(tail).get(column, len(tail.column_statistics))
        if not tail.rows:
            continue
        if number >= len(tail.column_statistics) or tail.column_statistics[number].has_null:
            return None
        told = tail.column_statistics[number].maximum
        if not isinstance(told, int) or abs(told) >= _MOST_TIME:
            return None
        newest = told if newest is None else max(newest, told)
    return newest


def names(column: str, where: Where | None = None, sampling: Sampling | None = None) -> list[str]:
    """The columns of a pass over times, each once."""
    return list(dict.fromkeys([column, *(where.columns if where else ()), *(sampling.columns if sampling else ())]))


def _times(stripe: RawRows, column: str, where: Where | None, skip_null: bool) -> tuple[np.ndarray, np.ndarray]:
    """Times of the rows that `where` takes, int64 `[taken]`; and which these are, bool `[rows]`."""
    array = stripe.columns[column]
    place = f"{stripe.path}: column {column}"
    if not pa.types.is_integer(array.type):
        raise DataError(f"{place}: expected integers (times), found {array.type}")
    taken = mask(where, stripe.columns) if where else np.ones(stripe.rows, bool)
    null = array.is_null().to_numpy(zero_copy_only=False) & taken
    if skip_null:
        taken &= ~null
    elif null.any():
        row = int(stripe.numbers[np.argmax(null)])
        raise DataError(f"{place}: row {row} (counted from 0): expected a time, found null")
    times = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)[taken]
    if len(times) and max(abs(int(times.max())), abs(int(times.min()))) >= _MOST_TIME:
        raise DataError(f"{place}: expected times below 2**52, found {times[np.argmax(np.abs(times))]}")
    return times, taken
