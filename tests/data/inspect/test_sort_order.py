"""Sort orders that are found while rows pass by, against sorting."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from data.inspect.sort_order import SortCheck, SortFinder, sort_keys

ROWS = st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 3), max_size=12)


def keys(rows):
    return {name: sort_keys(pa.array([row[i] for row in rows], pa.int64())) for i, name in enumerate("abc")}


def ascending(rows, columns):
    """Row numbers that are less than the one before; nulls come first."""
    values = [tuple(-1 if row["abc".index(c)] is None else row["abc".index(c)] for c in columns) for row in rows]
    return [i for i in range(1, len(values)) if values[i] < values[i - 1]]


def pieces(rows, cuts):
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {0, len(rows)})
    return [rows[start:end] for start, end in zip(ends, ends[1:])] or [rows]


@given(ROWS, st.booleans(), st.lists(st.integers(0, 12), max_size=4), st.permutations("abc"), st.integers(1, 3))
@settings(deadline=None, max_examples=150)
def test_a_check_finds_the_first_row_out_of_order(rows, sort, cuts, columns, count):
    rows = sorted(rows, key=lambda row: [-1 if v is None else v for v in row]) if sort else rows
    check = SortCheck(columns[:count])
    for piece in pieces(rows, cuts):
        check.add(keys(piece))
    wrong = ascending(rows, columns[:count])
    assert check.first_violation == (wrong[0] if wrong else None)


@given(ROWS, st.permutations("abc"), st.lists(st.integers(0, 12), max_size=4), st.booleans())
@settings(deadline=None, max_examples=150)
def test_what_is_found_is_true_and_nothing_better_is(rows, by, cuts, sort):
    if sort:
        rows = sorted(rows, key=lambda row: [-1 if row["abc".index(c)] is None else row["abc".index(c)] for c in by])
    finder = SortFinder()
    for piece in pieces(rows, cuts):
        finder.add(keys(piece))
    found = finder.found(by)
    for columns in (found[:1], found):
        assert not columns or not ascending(rows, columns)

    def says_something(columns):
        if ascending(rows, columns):
            return False
        many = [len({tuple(row["abc".index(c)] for c in columns[:n]) for row in rows}) for n in range(len(columns) + 1)]
        return all(after > max(before, 1) for before, after in zip(many, many[1:]))

    pairs = [(a, b) for a in by for b in by if a != b and says_something((a, b))]
    singles = [(a,) for a in by if says_something((a,))]
    assert found == (pairs + singles + [()])[0]


def test_floats_and_times_are_ordered_too():
    floats, times = pa.array([None, -1.5, 2.0, float("nan")]), pa.array([None, 1, 2, 3], pa.timestamp("ns"))
    finder = SortFinder()
    finder.add({"f": sort_keys(floats), "t": sort_keys(times), "b": sort_keys(pa.array([True, False, True, True]))})
    assert finder.found(["t"]) == ("t",)
    check = SortCheck(["f"])
    check.add({"f": sort_keys(floats)})
    assert check.first_violation is None
