"""Spliced files against independent readers (pyorc, pyarrow) and against the same rows written at once."""

from __future__ import annotations

import datetime
import io
import math

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.format.splice import Splicer


def encode(table: pa.Table, codec: str = "zstd", **how) -> bytes:
    sink = pa.BufferOutputStream()
    with orc.ORCWriter(sink, compression=codec, **how) as writer:
        writer.write(table)
    return sink.getvalue().to_pybytes()


def splice(contents) -> bytes:
    file = io.BytesIO()
    splicer = Splicer(file)
    for content in contents:
        splicer.add(memoryview(content))
    splicer.finish()
    return file.getvalue()


def statistics(content: bytes) -> list[dict]:
    """By top-level column, by pyorc."""
    reader = pyorc.Reader(io.BytesIO(content))
    return [reader[k].statistics for k in range(1, 1 + len(reader.schema.fields))]


@pytest.mark.parametrize("codec", ["zstd", "zlib", "snappy", "lz4", "uncompressed"])
@pytest.mark.parametrize("block_bytes", [1 << 16, 1 << 18])
def test_all_types_come_back_and_pyorc_sees_every_stripe(codec, block_bytes):
    rows = 500
    day = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "text": [f"row {k}" for k in range(rows)],
            "yes": [k % 3 == 0 for k in range(rows)],
            "value": pa.array(np.random.default_rng(1).normal(size=rows)),
            "maybe": pa.array([None if k % 7 == 0 else k for k in range(rows)], pa.int32()),
            "list": pa.array([list(range(k % 5)) for k in range(rows)], pa.list_(pa.int64())),
            "when": pa.array([day + datetime.timedelta(hours=k) for k in range(rows)], pa.timestamp("ns", "UTC")),
            "raw": pa.array([bytes([k % 256]) * 3 for k in range(rows)], pa.binary()),
        }
    )
    cuts = [0, 1, 100, 100, 350, 500]
    how = {"compression_block_size": block_bytes, "row_index_stride": 1000}
    content = splice(encode(table.slice(a, b - a), codec, **how) for a, b in zip(cuts, cuts[1:]))
    assert orc.ORCFile(io.BytesIO(content)).read().equals(table)
    reader = pyorc.Reader(io.BytesIO(content))
    assert [len(stripe) for stripe in reader.iter_stripes()] == [1, 99, 250, 150]
    assert len(reader) == rows
    found = [row[:6] for row in pyorc.Reader(io.BytesIO(content))]
    assert found == [tuple(row.values()) for row in table.select(range(6)).to_pylist()]


def test_a_file_of_one_is_read_as_the_one():
    table = pa.table({"a": [3, 1, None], "b": [1.5, 2.5, None]})
    content = encode(table)
    spliced = splice([content])
    assert orc.ORCFile(io.BytesIO(spliced)).read().equals(table)
    assert statistics(spliced) == statistics(content)


COLUMNS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.floats(width=64)),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=30,
)
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.bool_())])


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(COLUMNS, min_size=1, max_size=4))
def test_merged_statistics_are_those_of_all_rows(pieces):
    tables = [
        pa.table([pa.array([row[k] for row in piece], field.type) for k, field in enumerate(SCHEMA)], schema=SCHEMA)
        for piece in pieces
    ]
    rows = [row for piece in pieces for row in piece]
    integers, doubles, booleans = statistics(splice(encode(table) for table in tables))
    for number, found in enumerate((integers, doubles, booleans)):
        values = [row[number] for row in rows if row[number] is not None]
        assert found["number_of_values"] == len(values)
        assert found["has_null"] == (len(values) < len(rows))
    values = [row[0] for row in rows if row[0] is not None]
    if values:
        assert (integers["minimum"], integers["maximum"]) == (min(values), max(values))
    if "sum" in integers:
        assert integers["sum"] == sum(values)
    values = [row[1] for row in rows if row[1] is not None]
    if any(math.isnan(value) for value in values):
        assert "sum" not in doubles or math.isnan(doubles["sum"])
    elif values:
        assert (doubles["minimum"], doubles["maximum"]) == (min(values), max(values))
    assert booleans["true_count"] == sum(row[2] is True for row in rows)
