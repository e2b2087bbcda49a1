"""Sampling against a plain loop over rows in Python numbers, written from the specification."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.sample.sampling import (
    Constant,
    Factor,
    Lookup,
    Sampling,
    Steps,
    column_problems,
    from_json,
    sample,
    to_json,
    uniform,
)
from data.where import parse

BITS = 2**64 - 1
G = 0x9E3779B97F4A7C15

# An expression beside what it says in Python; null makes it unknown, and so not true.
CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "age > 3": lambda row: row["age"] is not None and row["age"] > 3,
    "score <= 0.5 and item in (1, 2, 9007199254740993)": lambda row: (
        row["score"] is not None and row["score"] <= 0.5 and row["item"] in (1, 2, 2**53 + 1)
    ),
    "item is None": lambda row: row["item"] is None,
}


def mix(z: int) -> int:
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & BITS
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & BITS
    return z ^ z >> 31


def value_and_log(rate: Any, row: dict[str, Any]) -> tuple[float, float]:
    if isinstance(rate, Constant):
        value = rate.value
    elif row[rate.column] is None:
        value = rate.default
    elif isinstance(rate, Steps):
        value = rate.values[sum(bound <= row[rate.column] for bound in rate.bounds)]
    else:
        value = dict(zip(rate.keys.tolist(), rate.values.tolist())).get(row[rate.column], rate.default)
    return value, math.log(value)


def expected(sampling: Sampling, row: dict[str, Any], key: int, number: int) -> tuple[bool, np.float32, np.float32]:
    """Whether a row is kept, its weight and its offset."""
    label = row[sampling.label]
    keep = weight = 1.0
    sums = [0.0, 0.0]
    for factor in sampling.factors:
        if factor.when is not None and not CONDITIONS[factor.when.text](row):
            continue
        value, log = value_and_log(factor.rate, row)
        for y in (0, 1):
            if factor.label in (None, y):
                sums[y] += log
        if label in (0, 1) and factor.label in (None, label):
            if factor.kind == "keep":
                keep *= value
            else:
                weight *= value
    u = (mix((mix((key + sampling.seed * G) & BITS) + (number + 1) * G) & BITS) >> 11) * 2.0**-53
    offset = sums[0] - sums[1] if label in (0, 1) else 0.0
    return u < keep, np.float32(weight), np.float32(offset)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, pa.Array]:
    types = {"label": pa.int8(), "age": pa.int32(), "score": pa.float64(), "item": pa.int64(), "time": pa.int64()}
    return {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}


KEEPS = st.floats(2**-20, 1.0)
WEIGHTS = st.floats(0.01, 100.0)
ITEMS = st.sampled_from([None, -5, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**53 + 2, -(2**63), 2**63 - 1])
ROWS = st.fixed_dictionaries(
    {
        "label": st.sampled_from([0, 0, 1, 1, 1, None, 2]),
        "age": st.sampled_from([None, 0, 3, 4, 100]),
        "score": st.sampled_from([None, 0.0, 0.5, 0.75, math.inf, -math.inf, math.nan]),
        "item": ITEMS,
        "time": st.integers(-(2**62), 2**62) | st.sampled_from([0, 10, 20]),
    }
)


@st.composite
def rates(draw: st.DrawFn, values: st.SearchStrategy[float]) -> Any:
    kind = draw(st.sampled_from(["constant", "steps", "lookup"]))
    if kind == "constant":
        return Constant(draw(values))
    if kind == "lookup":
        keys = sorted(draw(st.sets(ITEMS.filter(lambda item: item is not None), max_size=5)))
        return Lookup("item", np.array(keys, np.int64), np.array([draw(values) for _ in keys]), draw(values))
    column = draw(st.sampled_from(["time", "score", "item"]))
    bounds = sorted(draw(st.sets(st.sampled_from([-1e30, 0.0, 0.5, 10.0, 2.0**53, 2.0**53 + 2, 1e30]), min_size=1)))
    return Steps(column, tuple(bounds), tuple(draw(values) for _ in range(len(bounds) + 1)), draw(values))


@st.composite
def factors(draw: st.DrawFn) -> Factor:
    kind = draw(st.sampled_from(["keep", "weight"]))
    when = draw(st.sampled_from([None, None, *CONDITIONS]))
    return Factor(
        kind=kind,
        rate=draw(rates(KEEPS if kind == "keep" else WEIGHTS)),
        label=draw(st.sampled_from([None, 0, 0, 1])),
        when=parse(when) if when else None,
    )


@settings(deadline=None, max_examples=200)
@given(
    st.lists(factors(), max_size=4),
    st.lists(ROWS, max_size=12),
    st.integers(0, BITS),
    st.integers(0, BITS),
    st.integers(0, 2**40),
)
def test_every_row_is_as_the_plain_loop_says(
    some: list[Factor], rows: list[dict[str, Any]], seed: int, key: int, first: int
) -> None:
    sampling = Sampling("label", seed, tuple(some))
    numbers = np.arange(first, first + len(rows), dtype=np.int64)
    got = sample(sampling, columns_of(rows), key, numbers)
    wanted = [expected(sampling, row, key, int(number)) for row, number in zip(rows, numbers)]
    assert got.keep.tolist() == [kept for kept, _, _ in wanted]
    assert got.weight.dtype == got.offset.dtype == np.float32
    assert got.weight.tolist() == [weight for kept, weight, _ in wanted if kept]
    assert got.offset.tolist() == [offset for kept, _, offset in wanted if kept]
    again = from_json(json.loads(json.dumps(to_json(sampling))))
    same = sample(again, columns_of(rows), key, numbers)
    for one, other in zip((got.keep, got.weight, got.offset), (same.keep, same.weight, same.offset)):
        assert one.tobytes() == other.tobytes()


def test_rows_are_drawn_alike_whatever_comes_with_them() -> None:
    sampling = Sampling("label", 7, (Factor("keep", Constant(0.3)),))
    labels = pa.array(np.arange(1000) % 2)
    whole = sample(sampling, {"label": labels}, 5, np.arange(1000)).keep
    some = np.array([3, 999, 17, 500])
    assert sample(sampling, {"label": labels.take(pa.array(some))}, 5, some).keep.tolist() == whole[some].tolist()


def test_the_kept_share_is_the_keep_rate() -> None:
    rows, rate = 200_000, 0.2
    numbers = uniform(3, 0x0123456789ABCDEF, np.arange(rows))
    spread = math.sqrt(rate * (1 - rate) * rows)
    assert abs((numbers < rate).sum() - rate * rows) < 5 * spread
    assert numbers.min() >= 0 and numbers.max() < 1
    other = uniform(3, 2**64 - 5, np.arange(rows))
    both = ((numbers < rate) & (other < rate)).sum()  # independent between files
    assert abs(both - rate**2 * rows) < 5 * math.sqrt(rate**2 * rows)


def test_the_columns_needed_come_in_the_order_of_their_first_use() -> None:
    sampling = Sampling(
        "label",
        0,
        (
            Factor("keep", Steps("time", (5.0,), (0.5, 1.0)), when=parse("b > 1 and a < 2")),
            Factor("weight", Lookup("item", np.array([1]), np.array([2.0])), when=parse("time > 3")),
        ),
    )
    assert sampling.columns == ("label", "b", "a", "time", "item")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Factor("keep", Constant(0.0)), "keep: expected a number above 0 and at most 1, found 0.0"),
        (lambda: Factor("keep", Constant(1.5)), "keep: expected a number above 0 and at most 1, found 1.5"),
        (lambda: Factor("weight", Constant(math.inf)), "weight: expected a number above 0, found inf"),
        (lambda: Factor("keep", Steps("t", (1.0,), (0.5, 0.5), math.nan)), "found nan"),
        (lambda: Steps("t", (), (1.0,)), "bounds: expected numbers, each above the one before"),
        (lambda: Steps("t", (2.0, 2.0), (1.0, 1.0, 1.0)), "bounds: expected numbers, each above the one before"),
        (lambda: Steps("t", (2**53 + 1,), (1.0, 1.0)), "that a float64 holds exactly"),
        (lambda: Steps("t", (2.0,), (1.0,)), "values: expected 2 for 1 bounds, found 1"),
        (lambda: Lookup("i", np.array([2, 1]), np.ones(2)), "keys: expected each above the one before"),
        (lambda: Lookup("i", np.array([1, 2]), np.ones(1)), "values: expected one for each of 2 keys, found 1"),
        (lambda: Sampling("y", -1, ()), "seed: expected 0 to"),
        (
            lambda: Sampling("y", 0, (Factor("keep", Constant(0.5), when=parse("y == 0")),)),
            "expected columns other than the label, found y",
        ),
    ],
)
def test_wrong_values_are_told(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make()


def test_columns_that_do_not_fit_are_told() -> None:
    sampling = Sampling(
        "label",
        0,
        (
            Factor("keep", Steps("time", (5.0,), (0.5, 1.0)), when=parse("gone > 1")),
            Factor("keep", Lookup("item", np.array([1]), np.array([0.5]))),
        ),
    )
    schema = pa.schema([("label", pa.string()), ("time", pa.list_(pa.int64())), ("item", pa.float32())])
    problems = column_problems(sampling, schema, "a.orc")
    assert [line.partition(":")[2].split(":")[0].strip() for line in problems] == [
        "column gone",
        "column label",
        "column time",
        "column item",
    ]
    right = pa.schema([("label", pa.bool_()), ("time", pa.int64()), ("item", pa.int32()), ("gone", pa.float64())])
    assert column_problems(sampling, right, "a.orc") == []
