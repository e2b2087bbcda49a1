"""Casts of whole columns, whatever the type and also of no row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from data.convert.casts import integers

TYPES = [pa.int8(), pa.uint64(), pa.bool_(), pa.float64(), pa.string(), pa.binary(), pa.decimal128(10, 2), pa.date32()]


@pytest.mark.parametrize("kind", [*TYPES, pa.list_(pa.int64())], ids=str)
def test_of_no_row_there_is_no_integer_and_none_is_wrong(kind: pa.DataType) -> None:
    values, wrong = integers(pa.array([], kind))
    assert values.type == pa.int64() and len(values) == 0
    assert wrong is None or len(wrong) == 0


def test_values_of_a_type_that_is_never_an_integer_are_all_wrong() -> None:
    values, wrong = integers(pa.array([1, 2, 3], pa.date32()))
    assert values.null_count == 3 and wrong is not None and wrong.tolist() == [True] * 3
