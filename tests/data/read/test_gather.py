"""Gathered rows, against pyarrow's own `take`."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from data.read.gather import Gatherer, take

KINDS = [pa.list_(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())]
KINDS += [pa.int64(), pa.float32(), pa.list_(pa.bool_()), pa.list_(pa.string())]


@st.composite
def arrays(draw):
    """Arrays of all kinds, cut out of longer ones, with and without nulls; lists with nulls inside, too."""
    kind = draw(st.sampled_from(KINDS))
    inner = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_boolean(inner):
        values = st.booleans()
    elif pa.types.is_string(inner):
        values = st.text(max_size=3)
    else:
        values = st.integers(-100, 100).map(float if pa.types.is_floating(inner) else int)
    if draw(st.booleans()):
        values = st.none() | values
    if pa.types.is_list(kind):
        values = st.lists(values, max_size=4)
        values = st.none() | values if draw(st.booleans()) else values
    items = draw(st.lists(values, max_size=12))
    array = pa.array(items, kind)
    start = draw(st.integers(0, len(items)))
    return array.slice(start, draw(st.integers(0, len(items) - start)))


@given(arrays(), st.data())
def test_taken_rows_are_those_pyarrow_takes(array, data):
    few = st.lists(st.integers(0, len(array) - 1), max_size=20) if len(array) else st.just([])
    positions = data.draw(few)
    taken = take(array, pa.array(positions, pa.int64()))
    taken.validate(full=True)
    assert taken.type == array.type
    assert taken.to_pylist() == [array[i].as_py() for i in positions]
    batch = pa.record_batch({"a": array, "n": pa.array(range(len(array)), pa.int64())})
    gatherer = Gatherer(batch)
    for part in (positions, positions[::-1], positions[2:]):
        rows = gatherer.take(np.array(part, np.int64))
        rows.validate(full=True)
        assert rows.schema == batch.schema
        assert rows.to_pylist() == [{"a": array[i].as_py(), "n": i} for i in part]
