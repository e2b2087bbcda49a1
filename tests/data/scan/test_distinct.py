"""Counts of different values: exact below the limit, near it above."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.scan.distinct import RELATIVE_ERROR, Distinct, DistinctCounter


@given(
    st.lists(st.lists(st.integers(0, 300) | st.integers(0, 2**64 - 1), max_size=50), max_size=30), st.integers(0, 400)
)
@settings(deadline=None, max_examples=200)
def test_few_values_are_counted_exactly(batches, limit):
    counter = DistinctCounter(limit)
    seen = set()
    for batch in batches:
        counter.add(np.array(batch, np.uint64))
        seen |= set(batch)
        if len(seen) <= limit:
            assert counter.result() == Distinct(len(seen), True)
    if len(seen) > limit:
        found = counter.result()
        assert not found.exact
        assert abs(found.number - len(seen)) <= max(3, 0.05 * len(seen))


@pytest.mark.parametrize("count", [1_000, 20_000, 100_000, 1_000_000])
def test_estimates_are_as_near_as_they_say(count):
    errors = []
    for start in range(4):
        counter = DistinctCounter(500)
        values = np.arange(count, dtype=np.uint64) * np.uint64(2) + np.uint64(start << 40)
        for part in np.array_split(np.concatenate([values, values[::3]]), 5):
            counter.add(part)
        found = counter.result()
        assert not found.exact
        errors.append((found.number - count) / count)
    assert max(map(abs, errors)) < 2 * RELATIVE_ERROR
    assert abs(np.mean(errors)) < RELATIVE_ERROR


def test_a_limit_bounds_what_is_held():
    counter = DistinctCounter(1000)
    for start in range(0, 100_000, 50):
        counter.add(np.arange(start, start + 50, dtype=np.uint64))
        assert len(counter._seen) + counter._new_count <= 3000
