"""One batch of rows against a reference that takes one value at a time."""

from __future__ import annotations

import contextlib
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.convert.rows import convert_batch
from data.convert.schema import SamplesSchema, arrow_schema
from data.errors import DataError
from tests.data.convert import reference
from tests.data.convert.preimages import text_with_hash

TEXTS = st.none() | st.text(alphabet="ab1,|é ", max_size=8)
DIGITS = st.integers(-(2**63) - 3, 2**63 + 3).map(str)
ID_TEXTS = st.none() | DIGITS | st.sampled_from(["", "0", "-5", " 7 ", "x", "1.5", "0x1F", "1e3", "+3", "٣", "--1"])
NUMBERS = (
    st.none() | st.floats(width=64).map(repr) | st.sampled_from(["", "1", "-0.5", "nan", "inf", "1e999", "a", "1e-50"])
)
LISTS = (
    st.none()
    | st.lists(st.integers(-9, 10**12).map(str), max_size=5).map(",".join)
    | st.sampled_from(["1,,2", ",", "1,"])
)
TIMES = st.datetimes().map(str) | st.datetimes().map(lambda t: t.isoformat() + "+05:30")


def schema_of(*columns: dict, **rest) -> SamplesSchema:
    return SamplesSchema.model_validate({"columns": list(columns), **rest}, strict=True)


def check(raw: pa.RecordBatch, schema: SamplesSchema) -> None:
    numbers = np.arange(100, 100 + raw.num_rows)
    found = convert_batch(raw, schema, numbers, "source")
    expected = [reference.row(values, schema) for values in raw.to_pylist()]
    good = [index for index, row in enumerate(expected) if row is not None]
    assert found.batch.schema == arrow_schema(schema)
    assert found.kept.tolist() == good
    assert found.batch.to_pylist() == [expected[index] for index in good]
    assert [bad.row for bad in found.bad] == [100 + index for index, row in enumerate(expected) if row is None]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(ID_TEXTS, NUMBERS, LISTS, TEXTS, TEXTS), max_size=12), st.integers(0, 3))
def test_texts_become_what_the_reference_says(rows, seed):
    schema = schema_of(
        {"name": "u", "source": "user", "kind": "id", "fill": -1},
        {"name": "d", "kind": "dense"},
        {"name": "l", "kind": "id_list"},
        {"name": "k", "source": "l", "kind": "id_list", "empty_items": "drop", "missing": "empty"},
        {"name": "h", "kind": "hashed_id"},
        {"name": "t", "kind": "hashed_id_list", "separator": "|"},
        hash_seed=seed,
    )
    columns = list(zip(*rows)) if rows else [[]] * 5
    names = ["user", "d", "l", "h", "t"]
    check(pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names=names), schema)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.none() | st.lists(st.text("a,é", max_size=3), max_size=4), max_size=8),
    st.lists(st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=4), max_size=8),
)
def test_lists_become_what_the_reference_says(texts, numbers):
    for values, kind in ((texts, pa.string()), (numbers, pa.int32())):
        for column in (
            {"name": "t", "kind": "hashed_id_list"},
            {"name": "t", "kind": "hashed_id_list", "empty_items": "drop", "missing": "error"},
        ):
            check(pa.RecordBatch.from_arrays([pa.array(values, pa.list_(kind))], names=["t"]), schema_of(column))


EPOCHS = st.integers(-(10**10), 10**10).map(str) | st.sampled_from(
    ["", " 5 ", "1.5", "-0.25", "1e3", "9223372036854774", "nan", "x", "0x5", "1.", "12.000", "1600000000.001"]
)
DATES = st.sampled_from(["31/12/2020", "30/02/2021", "29/02/2020", "29/02/2021", "31/4/1999", "1/3/2000", "", "x"])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(ID_TEXTS, NUMBERS, LISTS, TEXTS, EPOCHS, DATES, TIMES), min_size=1, max_size=12))
def test_what_a_row_becomes_does_not_depend_on_the_rows_around_it(rows):
    schema = schema_of(
        {"name": "i", "kind": "id", "missing": "error"},
        {"name": "d", "kind": "dense", "nan": "missing", "missing": "error"},
        {"name": "l", "kind": "id_list", "missing": "error"},
        {"name": "h", "kind": "hashed_id_list", "separator": "|"},
        {"name": "e", "kind": "time", "format": "epoch_seconds"},
        {"name": "p", "kind": "time", "format": "pattern", "pattern": "%d/%m/%Y", "missing": "keep"},
        {"name": "z", "kind": "time", "format": "iso8601"},
    )
    raw = pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in zip(*rows)], names=list("idlhepz"))
    together = convert_batch(raw, schema, np.arange(len(rows)), "f")
    alone = [convert_batch(raw.slice(i, 1), schema, np.array([i]), "f") for i in range(len(rows))]
    assert together.batch.to_pylist() == [row for one in alone for row in one.batch.to_pylist()]
    assert together.bad == [bad for one in alone for bad in one.bad]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 32), st.integers(1, 12), st.integers(1970, 2099)), min_size=1, max_size=12),
    st.sampled_from(["%d/%m/%Y", "%Y-%m-%d", "%d %b %Y %z", "%F"]),
)
def test_days_are_read_as_python_reads_them_and_no_month_has_more_than_it_has(days, pattern):
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    python = pattern.replace("%F", "%Y-%m-%d")
    texts = [
        python.replace("%d", str(d)).replace("%m", str(m)).replace("%Y", str(y)).replace("%b", names[m - 1])
        for d, m, y in days
    ]
    texts = [text.replace("%z", "+0530") for text in texts]
    expected = {}
    for place, text in enumerate(texts):
        with contextlib.suppress(ValueError):
            stamp = datetime.strptime(text, python)
            stamp = stamp if stamp.tzinfo else stamp.replace(tzinfo=timezone.utc)
            expected[place] = round(stamp.timestamp() * 1000)
    raw = pa.RecordBatch.from_arrays([pa.array(texts)], names=["t"])
    schema = schema_of({"name": "t", "kind": "time", "format": "pattern", "pattern": pattern})
    found = convert_batch(raw, schema, np.arange(len(texts)), "f")
    assert dict(zip(found.kept.tolist(), found.batch.column("t").to_pylist())) == expected


@pytest.mark.parametrize(
    ("kind", "values", "good", "found"),
    [
        (pa.timestamp("s"), [0, 2**62, -(2**62), 253402300799], {0: 0, 3: 253402300799000}, "timestamp[s] "),
        (pa.timestamp("us"), [-1, 2**62], {0: -1}, "timestamp[us] 4611686018427387904"),
        (pa.timestamp("ns"), [-1, 2**63 - 1], {0: -1, 1: 9223372036854}, None),
        (pa.date32(), [1, 2**31 - 1, -(2**31)], {0: 86_400_000}, "a date32[day] that no calendar has"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_times_outside_of_all_calendars_are_bad_values(kind, values, good, found, zone):
    raw = pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["t"])
    schema = schema_of({"name": "t", "kind": "time", "format": "iso8601", "zone": zone})
    converted = convert_batch(raw, schema, np.arange(len(values)), "f")
    shift = 0 if zone == "UTC" else -19_800_000
    made = dict(zip(converted.kept.tolist(), converted.batch.column("t").to_pylist()))
    assert made == {place: value + shift for place, value in good.items()}
    assert all(bad.found.startswith(found) for bad in converted.bad)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ({"kind": "id"}, pa.array(["1", None], pa.string_view()), [1, None]),
        ({"kind": "id"}, pa.array([b"1234"], pa.binary(4)), [1234]),
        ({"kind": "id"}, pa.array([3, 4]).dictionary_encode(), [3, 4]),
        ({"kind": "id_list"}, pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), [[1, 2], [3, 4]]),
        ({"kind": "id_list"}, pa.array([["1,2"], None], pa.large_list(pa.large_string())), [[1, 2], None]),
        ({"kind": "id_list"}, pa.array([["1", "2"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), [[1, 2]]),
        ({"kind": "id"}, ["12.0", "-3.000", " 4.0 "], [12, -3, 4]),
        ({"kind": "id"}, ["9223372036854775807.0"], [2**63 - 1]),
        ({"kind": "id_list"}, ["1.0, 2", "-1,-2"], [[1, 2], [-1, -2]]),
    ],
)
def test_ways_of_keeping_values_do_not_matter(column, values, expected):
    raw = pa.RecordBatch.from_arrays([pa.array(values)], names=["c"])
    found = convert_batch(raw, schema_of({"name": "c", **column}), np.arange(len(expected)), "f")
    assert found.batch.column("c").to_pylist() == expected


@settings(deadline=None, max_examples=80)
@given(st.lists(TIMES, min_size=1, max_size=8), st.sampled_from(["UTC", "Asia/Kolkata"]))
def test_iso_times_become_milliseconds(texts, zone):
    schema = schema_of({"name": "t", "kind": "time", "format": "iso8601", "zone": zone})
    check(pa.RecordBatch.from_arrays([pa.array(texts)], names=["t"]), schema)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ({"format": "epoch_seconds"}, [1577836800, -1], [1577836800000, -1000]),
        ({"format": "epoch_seconds"}, ["1577836800.001", "1577836800.25", "3"], [1577836800001, 1577836800250, 3000]),
        ({"format": "epoch_seconds"}, [1577836800.001, 0.0004], [1577836800001, 0]),
        ({"format": "epoch_milliseconds"}, ["1577836800001"], [1577836800001]),
        ({"format": "epoch_microseconds"}, [1577836800000999, -1], [1577836800000, -1]),
        ({"format": "pattern", "pattern": "%d/%b/%Y:%H:%M:%S %z"}, ["10/Oct/2000:13:55:36 -0700"], [971211336000]),
        (
            {"format": "pattern", "pattern": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"},
            ["01.07.2020 12:00", "25.10.2020 02:30"],  # the second hour is there twice: the earlier one
            [1593597600000, 1603585800000],
        ),
        ({"format": "iso8601"}, ["2020-01-01T00:00:00.123456789Z", "2020-01-01"], [1577836800123, 1577836800000]),
        (
            {"format": "iso8601"},
            np.array(["2020-01-01", "1960-01-01"], "datetime64[ms]"),
            [1577836800000, -315619200000],
        ),
    ],
)
def test_times_of_every_format(column, values, expected):
    raw = pa.RecordBatch.from_arrays([pa.array(values)], names=["t"])
    found = convert_batch(raw, schema_of({"name": "t", "kind": "time", **column}), np.arange(len(values)), "source")
    assert found.batch.column("t").to_pylist() == expected


@pytest.mark.parametrize(
    ("column", "values", "row", "text"),
    [
        ({"kind": "id"}, ["1", "2,5"], 1, "expected an integer of 64 bits, found '2,5'"),
        ({"kind": "id"}, pa.array([1, 2**63], pa.uint64()), 1, "found 9223372036854775808"),
        ({"kind": "label"}, ["1", "2"], 1, "expected 0 or 1, found '2'"),
        ({"kind": "label"}, [1, None], 1, "not a missing value, found a missing value"),
        ({"kind": "dense"}, ["1", "two"], 1, "expected a finite float32 number, found 'two'"),
        (
            {"kind": "time", "format": "iso8601"},
            ["2020-01-01", "2020-13-01"],
            1,
            "expected a time (iso8601), found '2020-13",
        ),
        ({"kind": "time", "format": "pattern", "pattern": "%Y"}, ["2020", "x"], 1, "(pattern '%Y'), found 'x'"),
        ({"kind": "time", "format": "epoch_seconds"}, ["1", "soon"], 1, "found 'soon'"),
        ({"kind": "id"}, [[1], [1, 2]], 1, "expected an integer of 64 bits, found [1, 2]"),
        ({"kind": "id_list"}, ["1,2", "1,x"], 1, "expected integers of 64 bits, found '1,x'"),
        ({"kind": "id_list"}, ["1,2", "1,,2"], 1, "no empty item, found '1,,2'"),
        ({"kind": "id_list", "missing": "error"}, ["1,2", None], 1, "not a missing list, found a missing value"),
        ({"kind": "id"}, [b"1", b"\xff"], 1, r"found '\\xff'"),
    ],
)
def test_a_bad_value_is_told_with_what_was_expected_and_found(column, values, row, text):
    raw = pa.RecordBatch.from_arrays([pa.array(values)], names=["source column"])
    schema = schema_of({"name": "c", "source": "source column", **column})
    (bad,) = convert_batch(raw, schema, np.arange(2), "source").bad
    assert (bad.row, bad.column) == (row, "source column")
    assert text in f"expected {bad.expected}, found {bad.found}"


def test_a_type_that_never_fits_is_an_error_of_the_file():
    raw = pa.RecordBatch.from_arrays([pa.array([{"a": 1}])], names=["c"])
    with pytest.raises(DataError, match=r"f: column c: expected integers or texts of digits for kind id, found struct"):
        convert_batch(raw, schema_of({"name": "c", "kind": "id"}), np.arange(1), "f")


def test_nan_can_mean_missing_and_dictionaries_are_read():
    schema = schema_of(
        {"name": "d", "kind": "dense", "nan": "missing", "fill": 2.0}, {"name": "c", "kind": "hashed_id"}
    )
    raw = pa.RecordBatch.from_arrays(
        [pa.array([float("nan"), 1.0]), pa.array(["x", "y"]).dictionary_encode()], names=["d", "c"]
    )
    found = convert_batch(raw, schema, np.arange(2), "f")
    assert found.batch.to_pylist() == [{"d": 2.0, "c": reference.hashed("x")}, {"d": 1.0, "c": reference.hashed("y")}]
    assert found.nulls == {"d": 1, "c": 0}


def test_a_bad_row_leaves_no_trace_in_the_counts():
    schema = schema_of({"name": "i", "kind": "id"}, {"name": "h", "kind": "hashed_id"}, {"name": "d", "kind": "dense"})
    moved = text_with_hash(0, 3)
    raw = pa.RecordBatch.from_arrays(
        [pa.array(["1", "bad", "3"]), pa.array([b"a", moved, None]), pa.array([None, None, 1.5])], names=["i", "h", "d"]
    )
    found = convert_batch(raw, schema, np.arange(3), "f")
    assert found.nulls == {"i": 0, "h": 1, "d": 1}
    assert found.hashes["h"].moved == 0
    assert len(found.hashes["h"].ids) == 1
