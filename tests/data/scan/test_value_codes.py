"""Codes are equal exactly for equal values."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.scan.value_codes import codes, combined, value_class

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1.0])
TYPES = (
    (pa.int64(), INTEGERS),
    (pa.bool_(), st.booleans()),
    (pa.float32(), FLOATS),
    (pa.float64(), FLOATS),
    (pa.string(), st.text(max_size=3)),
    (pa.binary(), st.binary(max_size=3)),
    (pa.list_(pa.int64()), st.lists(st.none() | st.integers(0, 2), max_size=4)),
    (pa.list_(pa.float32()), st.lists(st.none() | FLOATS, max_size=3)),
    (pa.list_(pa.string()), st.lists(st.none() | st.text("ab", max_size=2), max_size=3)),
    (pa.list_(pa.list_(pa.int32())), st.lists(st.lists(st.integers(0, 1), max_size=2), max_size=3)),
    (pa.decimal128(9, 2), st.integers(-300, 300).map(lambda i: Decimal(i) / 100)),
    (pa.date32(), st.dates()),
)


def comparable(value):
    if isinstance(value, list):
        return tuple(comparable(item) for item in value)
    return "nan" if isinstance(value, float) and math.isnan(value) else value


@given(st.data(), st.sampled_from(TYPES))
@settings(deadline=None, max_examples=200)
def test_codes_are_equal_for_equal_values_only(data, kind_and_values):
    kind, values = kind_and_values
    column = data.draw(st.lists(st.none() | values, max_size=12))
    cut = data.draw(st.integers(0, len(column)))
    found = codes(pa.array(column, kind))
    assert found.dtype == np.uint64
    assert found.tolist()[cut:] == codes(pa.array(column, kind)[cut:]).tolist()
    for one, code in zip(column, found.tolist()):
        for other, other_code in zip(column, found.tolist()):
            if None not in (one, other):
                assert (code == other_code) == (comparable(one) == comparable(other))
    assert len({code for value, code in zip(column, found.tolist()) if value is None}) <= 1


def test_the_width_of_a_number_does_not_matter():
    small, large = pa.array([1, None, 0], pa.int8()), pa.array([1, None, 0], pa.int64())
    assert codes(small).tolist() == codes(large).tolist() == codes(pa.array([True, None, False])).tolist()
    assert codes(pa.array([0.5, None], pa.float32())).tolist() == codes(pa.array([0.5, None])).tolist()
    assert value_class(pa.int8()) == value_class(pa.bool_()) != value_class(pa.float32()) == value_class(pa.float64())
    assert value_class(pa.list_(pa.int8())) == value_class(pa.list_(pa.int64())) == "list of integer"


def test_what_lies_under_a_null_list_does_not_count():
    values = pa.array([1, 2, 3])
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), values, mask=pa.array([False, True, False]))
    assert codes(hidden).tolist() == codes(pa.array([[1], None, [3]])).tolist()


@pytest.mark.parametrize("rows", [0, 5])
def test_combined_codes_depend_on_the_order_of_the_columns(rows):
    a, b = np.arange(rows, dtype=np.uint64), np.arange(rows, dtype=np.uint64)[::-1].copy()
    assert (combined([a, b]) == combined([a, b])).all()
    assert len({*combined([a, b]).tolist(), *combined([a + np.uint64(9), b]).tolist()}) == 2 * rows
