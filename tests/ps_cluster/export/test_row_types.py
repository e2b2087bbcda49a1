"""Rows of few bits are as near to those of float32 as their type allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.errors import UserError
from ps_cluster.export.row_types import RowType, as_float, row_bytes, stored

NUMBERS = st.one_of(st.floats(-100, 100, width=32), st.sampled_from([0.0, -0.0, 1e-45, -1e-38, 6e4, 2.9e38, -2.9e38]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(NUMBERS, min_size=3, max_size=3), max_size=6))
def test_int8_is_within_half_a_step_of_each_row(values: list) -> None:
    rows = np.array(values, np.float32).reshape(-1, 3)
    found, scales = stored(rows, "int8", "table")
    assert scales is not None and found.dtype == np.int8 and scales.dtype == np.float32
    largest = np.abs(rows.astype(np.float64)).max(axis=1, initial=0)
    # Numbers below the normal ones have steps of their own, 1e-45.
    allowed = largest[:, np.newaxis] / 127 * (0.5 + 1e-5) + 127 * 1e-45
    assert (np.abs(as_float(found, scales).astype(np.float64) - rows) <= allowed).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERS.filter(lambda value: abs(value) < 65504), min_size=2, max_size=2))
def test_float16_is_the_nearest_number_and_float32_the_same(values: list) -> None:
    rows = np.array([values], np.float32)
    found, scales = stored(rows, "float16", "table")
    assert scales is None
    np.testing.assert_array_equal(as_float(found, None), rows.astype(np.float16).astype(np.float32))
    same, scales = stored(rows, "float32", "table")
    assert scales is None and same.tobytes() == rows.tobytes()


def test_what_becomes_of_a_row_depends_on_the_row_alone() -> None:
    rows = np.random.default_rng(0).normal(size=[50, 8]).astype(np.float32)
    together, scales = stored(rows, "int8", "table")
    assert scales is not None
    for number in (0, 17, 49):
        alone, scale = stored(rows[number : number + 1], "int8", "table")
        assert scale is not None and scale[0] == scales[number]
        np.testing.assert_array_equal(alone[0], together[number])


@pytest.mark.parametrize(("row_type", "value"), [("float16", 7e4), ("float16", np.nan), ("int8", np.inf)])
def test_values_that_a_type_cannot_hold_are_refused(row_type: RowType, value: float) -> None:
    with pytest.raises(UserError, match=rf"tables\.item: expected values up to .* for rows of {row_type}, found"):
        stored(np.array([[1, value]], np.float32), row_type, "tables.item")


def test_bytes_of_a_row_count_its_scale() -> None:
    assert [row_bytes(16, kind) for kind in ("float32", "float16", "int8")] == [64, 32, 20]
