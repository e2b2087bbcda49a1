"""The native reader gives what the tfio reader gives: batches, counts and errors, of any read."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyorc
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.columns import Column
from data.errors import DataError
from data.format import checksums
from data.orc import open_reader
from data.read.plan import plan as make_plan
from data.read.read_spec import Position, ReadSpec
from data.read.stripes import Part
from data.sample.sampling import Constant, Factor, Lookup, Sampling, Steps
from data.where import parse
from tests.data import orc_files
from tests.data.read.both_readers import COLUMNS, by_op, outcome, same
from tests.data.s3_server import S3

INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
CODECS = [pyorc.CompressionKind.NONE, pyorc.CompressionKind.ZLIB, pyorc.CompressionKind.ZSTD]


@st.composite
def integers(draw, bits):
    if draw(st.booleans()):
        return draw(st.integers(-3, 3))
    return draw(st.integers(-(2**bits), 2**bits - 1))


@st.composite
def fields(draw, number):
    """(ORC type, values, column) of a column: nulls, numbers that are not finite, nulls in lists."""
    kind = draw(st.sampled_from([*INTEGERS, "boolean", "float", "double", "array"]))
    name = f"c{number}"
    rarely_null = st.integers(0, 40).map(lambda n: n == 0)
    if kind == "array":
        item = draw(st.sampled_from(sorted(INTEGERS)))
        items = integers(INTEGERS[item])
        if draw(rarely_null):
            items = st.none() | items
        values = st.lists(items, max_size=4)
        column = Column(
            name, "int64_list", draw(st.sampled_from([None, "empty"])), draw(st.sampled_from([None, 1, 2, 9]))
        )
        kind = f"array<{item}>"
    elif kind in ("float", "double"):
        width = 32 if kind == "float" else 64
        special = draw(rarely_null)
        values = st.floats(width=width, allow_nan=special, allow_infinity=special)
        if not special:
            values = values.filter(lambda x: abs(x) < 3e38)
        column = Column(name, "float32", draw(st.sampled_from([None, 0.5])))
    else:
        values = st.booleans() if kind == "boolean" else integers(INTEGERS[kind])
        target = draw(st.sampled_from(["int64", "float32"]))
        column = Column(name, target, draw(st.sampled_from([None, 7])))
    if draw(st.booleans()) and (column.missing is not None or draw(rarely_null)):
        values = st.none() | values
    return kind, values, column


@st.composite
def reads(draw):
    """(ORC schema, stripes of rows, codec, whether it gets checksums, fields of a `ReadSpec`)."""
    columns = [draw(fields(number)) for number in range(draw(st.integers(1, 4)))]
    row = st.tuples(*(values for _, values, _ in columns), st.sampled_from([0, 1, 1, None, 2]))
    stripes = draw(st.lists(st.lists(row, min_size=1, max_size=14), min_size=1, max_size=6))
    schema = ",".join(f"{column.name}:{kind}" for kind, _, column in columns) + ",label:tinyint"
    scalars = [column.name for kind, _, column in columns if "array" not in kind]
    whole = [name for kind, _, column in columns for name in [column.name] if kind in {*INTEGERS, "boolean"}]

    def condition():
        name = draw(st.sampled_from([*scalars, "label"]))
        constant = draw(st.sampled_from(["0", "1", "-2", "0.5", "1e300", "9007199254740993"]))
        forms = [
            f"{name} {draw(st.sampled_from(['==', '!=', '<', '<=', '>', '>=']))} {constant}",
            f"{name} in (0, 1, {constant}, 2.5)",
            f"not ({name} > {constant} and {name} is not None)",
            f"{name} is None or {constant} <= {name} < 1000",
        ]
        return parse(draw(st.sampled_from(forms)))

    where = condition() if draw(st.booleans()) else None
    sampling = None
    if draw(st.booleans()):
        factors = [Factor("keep", Constant(draw(st.sampled_from([1.0, 0.5]))), draw(st.sampled_from([None, 0, 1])))]
        if scalars:
            steps = Steps(draw(st.sampled_from(scalars)), (-1.0, 0.5, 2.0), (0.25, 0.5, 3.0, 1.5), 0.125)
            when = parse(f"{scalars[0]} >= 0") if draw(st.booleans()) else None
            factors.append(Factor("weight", steps, draw(st.sampled_from([None, 0])), when))
        if whole:
            lookup = Lookup(whole[0], np.array([-2, 0, 1]), np.array([0.5, 0.9, 0.75]), 0.8)
            factors.append(Factor("keep", lookup, draw(st.sampled_from([None, 1]))))
        sampling = Sampling("label", draw(st.sampled_from([0, 5, 2**64 - 1])), tuple(factors))
    how = {
        "columns": tuple(column for _, _, column in columns),
        "batch_rows": draw(st.integers(1, 9)),
        "num_shards": draw(st.integers(1, 2)),
        "epochs": draw(st.integers(1, 2)),
        "shuffle_rows": draw(st.sampled_from([0, 0, 1, 7, 1000])),
        "seed": draw(st.integers(0, 3)),
        "where": where,
        "sampling": sampling,
        "interleave_stripes": draw(st.integers(1, 4)),
        "stripe_slices": draw(st.integers(1, 4)),
        "drop_remainder": draw(st.booleans()),
        "on_bad": draw(st.sampled_from(["error", "skip", "skip"])),
        "decode_threads": draw(st.sampled_from([1, 2, 4])),
    }
    return f"struct<{schema}>", stripes, draw(st.sampled_from(CODECS)), draw(st.booleans()), how


def write(path, schema, stripes, codec):
    with open(path, "wb") as file, pyorc.Writer(file, schema, batch_size=1, compression=codec) as writer:
        for number, rows in enumerate(stripes):
            if number:
                writer.write_intermediate_footer()
            writer.writerows(rows)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(reads(), st.integers(0, 30))
def test_any_read_gives_the_batches_counts_and_errors_of_the_tfio_reader(tmp_path_factory, read, start_row):
    schema, stripes, codec, with_checksums, how = read
    path = str(tmp_path_factory.mktemp("read") / "a.orc")
    write(path, schema, stripes, codec)
    if with_checksums:
        checksums.add_checksums(path)
    spec = ReadSpec((path,), **how)
    try:
        plan = make_plan(spec)
    except DataError:
        return
    if isinstance(same(spec, plan), str):
        return  # a resumed reader may not come by the wrong value
    start = Position(spec.epochs - 1, min(start_row, plan.rows))
    resumed = replace(spec, start=start)
    same(resumed, make_plan(resumed))


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zlib", "lz4", "zstd"])
@pytest.mark.parametrize("shuffle_rows", [0, 6000])
def test_files_of_pyarrow_and_all_codecs_are_read_alike(tmp_path, codec, shuffle_rows):
    rng = np.random.default_rng(5)
    rows = 20_000
    null = rng.random(rows) < 0.1
    lengths = rng.integers(0, 6, rows)
    table = pa.table(
        {
            "wide": pa.array(rng.integers(-(2**62), 2**62, rows), mask=null),
            "narrow": pa.array(rng.integers(-100, 100, rows), pa.int8()),
            "flag": pa.array(rng.random(rows) < 0.5),
            "number": pa.array(rng.standard_normal(rows), mask=null),
            "list": pa.array([list(map(int, rng.integers(0, 9, n))) if n else None for n in lengths]),
        }
    )
    path = str(tmp_path / "a.orc")
    with orc.ORCWriter(path, compression=codec, stripe_size=1024, batch_size=256) as writer:
        for start in range(0, rows, 2000):
            writer.write(table.slice(start, 2000))
    assert orc.ORCFile(path).nstripes > 1
    columns = (
        Column("number", "float32", 0.25),
        Column("list", "int64_list", "empty", 3),
        Column("flag", "float32"),
        Column("narrow", "float32"),
        Column("wide", "int64", -1),
    )
    for where in (None, parse("narrow > 20"), parse("wide is None")):
        spec = ReadSpec((path,), columns, 2048, shuffle_rows=shuffle_rows, where=where, seed=2)
        assert isinstance(same(spec), list)


@pytest.mark.parametrize("how", [{}, {"shuffle_rows": 300}, {"where": parse("id in (3, 700, 701)")}])
def test_both_readers_give_the_same_elements(two_files, how):
    spec = ReadSpec(two_files, COLUMNS, 128, epochs=2, seed=4, **how)
    found = []
    for reader in ("tfio", "native"):
        with open_reader(replace(spec, reader=reader)) as opened:
            assert int(opened.dataset.cardinality()) == opened.batches
            found.append([(values, info.numpy().tolist()) for values, info in opened.dataset])
            element_spec = opened.dataset.element_spec
        assert isinstance(found[-1][0][0]["items"], tf.RaggedTensor)
    assert len(found[0]) == len(found[1])
    for (a, info_a), (b, info_b) in zip(*found):
        assert info_a == info_b
        assert list(a) == list(b) == list(element_spec[0])
        for name in a:
            assert a[name].dtype == b[name].dtype
            flat = [(v.values, v.row_splits) if name == "items" else (v,) for v in (a[name], b[name])]
            for left, right in zip(*flat):
                np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("threads", [2, 4])
def test_batches_do_not_depend_on_the_number_of_threads(two_files, threads):
    spec = ReadSpec(two_files, COLUMNS, 100, epochs=2, shuffle_rows=200, interleave_stripes=3, decode_threads=1)
    plan = make_plan(spec)
    assert by_op(replace(spec, decode_threads=threads), plan) == by_op(spec, plan)


@pytest.fixture(scope="module", params=["index", "no index", "pyarrow"])
def long_stripe(tmp_path_factory, request):
    """A file of two stripes, of 12,000 rows and of some more, with 12 row groups or no row index at all."""
    path = str(tmp_path_factory.mktemp("long") / "a.orc")
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 4, 13000)
    rows = [
        (i, None if i % 7 == 3 else float(i) / 4, None if i % 11 == 5 else [i] * int(n), i % 3 == 0)
        for i, n in enumerate(lengths)
    ]
    if request.param == "pyarrow":
        names, types = ["id", "score", "items", "flag"], [pa.int64(), pa.float32(), pa.list_(pa.int64()), pa.bool_()]
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows), types)]
        orc.write_table(pa.table(arrays, names), path, row_index_stride=1000, stripe_size=64 << 20)
        return path
    schema = "struct<id:bigint,score:float,items:array<bigint>,flag:boolean>"
    stride = 1000 if request.param == "index" else 0
    with open(path, "wb") as file, pyorc.Writer(file, schema, row_index_stride=stride, batch_size=1000) as writer:
        writer.writerows(rows[:12000])
        writer.write_intermediate_footer()
        writer.writerows(rows[12000:])
    return path


def test_any_run_of_rows_of_a_stripe_is_that_slice_of_it(long_stripe):
    columns = (
        Column("id", "int64"),
        Column("score", "float32", -1),
        Column("items", "int64_list", "empty"),
        Column("flag", "int64"),
    )
    spec = ReadSpec((long_stripe,), columns, 1 << 20)
    plan = make_plan(spec)
    rng = random.Random(3)
    ends = [0, 1, 999, 1000, 1001, 4095, 4096, 4097, 7999, 8000, 11999]
    for stripe in {part.stripe for part in plan.parts}:
        cuts = [end for end in ends if end < stripe.rows] + [rng.randrange(stripe.rows) for _ in range(6)]
        parts = []
        for start in cuts:
            rows = rng.choice([1, 999, 1000, 5000, stripe.rows])
            parts.append(Part(stripe, start, min(rows, stripe.rows - start)))
        ranges = replace(plan, parts=tuple(parts))
        (whole,) = by_op(spec, replace(plan, parts=(Part(stripe, 0, stripe.rows),)))
        (found,) = by_op(spec, ranges)
        for column, all_rows in zip(found[1], whole[1]):
            assert column == [value for part in parts for value in all_rows[part.start : part.start + part.rows]]
        assert whole[1][0] == list(range(stripe.first_row, stripe.first_row + stripe.rows))


def test_condition_that_holds_in_few_rows_reads_the_other_columns_only_there(long_stripe):
    columns = (Column("score", "float32", -1), Column("items", "int64_list", "empty"))
    for text in (
        "id == 5000",
        "id in (4001, 6007)",
        "id >= 11998",
        "id < 3",
        "id in (0, 11999)",
        "id > 10 and id < 10",
    ):
        result = same(ReadSpec((long_stripe,), columns, 100, where=parse(text)))
        assert isinstance(result, list)


def test_files_on_s3_are_read_like_files_here(s3: S3, tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [300, 200, 50])
    for name, add in (("plain.orc", False), ("with checksums%20.orc", True)):
        if add:
            checksums.add_checksums(path)
        address = s3.put(f"some/{name}", Path(path).read_bytes())
        spec = ReadSpec((address,), COLUMNS, 64, where=parse("id > 40"), shuffle_rows=100)
        found = same(spec)
        assert sorted(row for _, columns in found for row in columns[0]) == list(range(41, 550))
    plan = make_plan(spec)
    s3.filesystem().delete_file(address.removeprefix("s3://"))
    assert address in outcome(by_op, spec, plan)


def test_file_urls_are_local_paths(tmp_path):
    path = orc_files.numbered(tmp_path / "a b.orc", [30])
    spec = ReadSpec((f"file://{path.replace(' ', '%20')}",), COLUMNS, 64)
    assert same(spec)[0][1][0] == list(range(30))


def test_files_of_one_name_are_sampled_differently_and_moved_ones_alike(tmp_path):
    paths = []
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        rows = [(i % 2, day) for i in range(400)]
        paths.append(orc_files.write(tmp_path / f"day={day}" / "part-0.orc", "struct<y:tinyint,day:bigint>", [rows]))
    sampling = Sampling("y", 3, (Factor("keep", Constant(0.5)),))
    spec = ReadSpec((), (Column("y", "int64"), Column("day", "int64")), 1000, sampling=sampling)
    days = [same(replace(spec, paths=(path,))) for path in paths]
    y = [found[0][1][0] for found in days]
    assert all(150 < len(labels) < 250 for labels in y)
    assert y[0] != y[1]
    (tmp_path / "day=1").rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "part-0.orc"
    assert same(replace(spec, paths=(str(moved),))) == days[0]
    moved = moved.rename(tmp_path / "moved" / "other.orc")
    assert same(replace(spec, paths=(str(moved),))) == days[0]
