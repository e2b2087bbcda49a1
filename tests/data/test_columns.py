"""How a decoded ORC column becomes a declared one."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.columns import Column, accepts, canonical
from data.errors import DataError

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def convert(array, column):
    result = canonical(array, column, "f.orc", 1000)
    result.validate(full=True)
    assert result.type == column.arrow_type and result.null_count == 0
    return result.to_pylist()


def test_integers_and_booleans_become_int64():
    column = Column("c", "int64")
    for kind in INTEGERS:
        assert convert(pa.array([-128, 0, 127], kind), column) == [-128, 0, 127]
    assert convert(pa.array([True, False]), column) == [1, 0]


def test_numbers_become_the_nearest_float32():
    column = Column("c", "float32")
    assert convert(pa.array([0.1, -2.5], pa.float64()), column) == [float(np.float32(0.1)), -2.5]
    assert convert(pa.array([2**24 + 1, 3], pa.int64()), column) == [float(2**24), 3.0]
    assert convert(pa.array([True, False]), column) == [1.0, 0.0]


def test_other_types_are_refused():
    for kind in (pa.string(), pa.float64(), pa.timestamp("ns"), pa.decimal128(9, 2), pa.list_(pa.int64())):
        assert not accepts(Column("c", "int64"), kind)
    for kind in (pa.string(), pa.date32(), pa.decimal128(9, 2), pa.list_(pa.float32())):
        assert not accepts(Column("c", "float32"), kind)
    for kind in (pa.int64(), pa.list_(pa.float32()), pa.list_(pa.string()), pa.list_(pa.list_(pa.int64()))):
        assert not accepts(Column("c", "int64_list"), kind)


def test_a_null_without_a_declared_value_names_file_column_and_row():
    for column, array in (
        (Column("c", "int64"), pa.array([1, None, None])),
        (Column("c", "float32"), pa.array([1.0, None])),
        (Column("c", "int64_list"), pa.array([[1], None], pa.list_(pa.int32()))),
    ):
        with pytest.raises(DataError, match=r"^f.orc: column c: row 1001 \(counted from 0\): expected .*, found null"):
            convert(array, column)


def test_a_declared_value_stands_for_nulls():
    assert convert(pa.array([1, None], pa.int8()), Column("c", "int64", missing=2**40)) == [1, 2**40]
    assert convert(pa.array([None, 1.0]), Column("c", "float32", missing=-1)) == [-1.0, 1.0]
    lists = pa.array([None, [1, 2], None, []], pa.list_(pa.int32()))
    assert convert(lists, Column("c", "int64_list", missing="empty")) == [[], [1, 2], [], []]


def test_what_lies_under_a_null_list_is_not_read():
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), pa.array([7, 8, 9]), mask=pa.array([True, False]))
    assert convert(lists, Column("c", "int64_list", missing="empty")) == [[], [9]]


def test_a_null_inside_a_list_is_an_error_even_when_missing_lists_are_empty():
    lists = pa.array([None, [], [1, 2], [3, None]], pa.list_(pa.int64()))
    with pytest.raises(DataError, match=r"row 1003 .* found a null inside the list \(position 1\)"):
        convert(lists, Column("c", "int64_list", missing="empty"))


def test_a_float_that_is_not_finite_is_an_error():
    for value in ("nan", "inf", "-inf", "1e300"):
        with pytest.raises(DataError, match=r"row 1001 .* expected a finite float32 number, found"):
            convert(pa.array([1.0, float(value)]), Column("c", "float32"))


LISTS = st.lists(st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6), max_size=12)


@given(LISTS, st.integers(1, 7), st.integers(0, 4), st.integers(0, 12))
def test_max_length_keeps_the_last_values(rows, max_length, start, length):
    array = pa.array(rows, pa.list_(pa.int32())).slice(start, length)
    column = Column("c", "int64_list", missing="empty", max_length=max_length)
    assert convert(array, column) == [(row or [])[-max_length:] for row in rows[start : start + length]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "string"},
        {"kind": "int64", "missing": 0.5},
        {"kind": "int64", "missing": "empty"},
        {"kind": "int64", "missing": True},
        {"kind": "int64", "missing": 2**63},
        {"kind": "float32", "missing": float("nan")},
        {"kind": "float32", "missing": 1e39},
        {"kind": "int64_list", "missing": 0},
        {"kind": "int64_list", "missing": "none"},
        {"kind": "int64_list", "max_length": 0},
        {"kind": "int64", "max_length": 3},
    ],
)
def test_settings_that_do_not_fit_the_kind_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^column c: .*expected .*found"):
        Column("c", **wrong)
