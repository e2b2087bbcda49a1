"""The parser of ORC tails and indexes, against pyorc's view of the same files and the decoded values."""

from __future__ import annotations

import hashlib
import math
import random
import struct

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyorc.predicates import PredicateColumn

from data.errors import DataError
from data.format import messages as orc_messages
from data.format.bloom import might_contain_double, might_contain_int
from data.format.checksums import add_metadata
from data.format.statistics import from_message
from data.format.tail import (
    Tail,
    bloom_filters,
    column_id,
    read_stripe_footer,
    read_tail,
    row_index,
    stripe_streams,
    top_level_columns,
)
from data.read.footers import read_footer

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
STRIDE = 100


def make_table(rows: int, seed: int = 0, nulls: bool = True) -> pa.Table:
    rng = np.random.default_rng(seed)
    mask = rng.random(rows) < 0.3 if nulls else np.zeros(rows, bool)
    lists = [None if i % 7 == 3 else rng.integers(0, 9, rng.integers(0, 4)).tolist() for i in range(rows)]
    return pa.table(
        {
            "id": pa.array(rng.integers(-(2**63), 2**63 - 1, rows)),
            "small": pa.array(rng.integers(-5, 6, rows), pa.int32(), mask=mask),
            "score": pa.array(rng.normal(size=rows).astype(np.float32)),
            "wide": pa.array(rng.normal(size=rows), mask=mask),
            "flag": pa.array(rng.random(rows) < 0.02, mask=mask),
            "items": pa.array(lists, pa.list_(pa.int64())),
            "none": pa.nulls(rows, pa.int64()),
        }
    )


def write_arrow(path, table, codec="zstd", stripe_bytes=1 << 14, bloom=(), stride=STRIDE):
    orc.write_table(
        table,
        str(path),
        compression=codec,
        stripe_size=stripe_bytes,
        row_index_stride=stride,
        bloom_filter_columns=list(bloom) or None,
    )
    return str(path)


def write_pyorc(path, table, codec="zstd", stripe_bytes=1 << 14, bloom=(), stride=STRIDE):
    schema = "struct<id:bigint,small:int,score:float,wide:double,flag:boolean,items:array<bigint>,none:bigint>"
    kind = {"uncompressed": "NONE"}.get(codec, codec.upper())
    with (
        open(path, "wb") as file,
        pyorc.Writer(
            file,
            schema,
            compression=pyorc.CompressionKind[kind],
            stripe_size=stripe_bytes,
            row_index_stride=stride,
            bloom_filter_columns=list(bloom),
            batch_size=64,
        ) as writer,
    ):
        writer.writerows(tuple(row.values()) for row in table.to_pylist())
    return str(path)


def opened(path: str) -> tuple[pa.NativeFile, Tail]:
    file = pa.OSFile(path)
    return file, read_tail(file, path)


def expected_statistics(values: list) -> tuple:
    """(count, has_null, minimum, maximum) of decoded values, by plain Python."""
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not isinstance(value, list)]
    has_null = len(present) < len(values)
    return len(present), has_null, min(numbers, default=None), max(numbers, default=None)


def found_statistics(statistics) -> tuple:
    return statistics.count, statistics.has_null, statistics.minimum, statistics.maximum


@pytest.mark.parametrize("write", [write_arrow, write_pyorc])
@pytest.mark.parametrize("codec", CODECS)
def test_every_statistic_equals_the_decoded_values(tmp_path, write, codec):
    table = make_table(12_000)
    path = write(tmp_path / "a.orc", table, codec)
    file, tail = opened(path)
    decoded = orc.ORCFile(path)
    assert tail.codec == codec.replace("uncompressed", "none")
    assert tail.rows == 12_000
    assert len(tail.stripes) == len(tail.stripe_statistics) == decoded.nstripes >= 2
    for name, column in top_level_columns(tail).items():
        assert column == column_id(tail, name)
        assert found_statistics(tail.column_statistics[column]) == expected_statistics(table[name].to_pylist())
        for number in range(decoded.nstripes):
            values = decoded.read_stripe(number, [name]).column(0).to_pylist()
            found = found_statistics(tail.stripe_statistics[number][column])
            assert found == expected_statistics(values), (name, number)
            groups = [values[start : start + STRIDE] for start in range(0, len(values), STRIDE)]
            found = [found_statistics(group)[::2] for group in row_index(file, tail, number, column)]
            assert found == [expected_statistics(group)[::2] for group in groups], (name, number)


@pytest.mark.parametrize("write", [write_arrow, write_pyorc])
def test_pyorc_tells_the_same_stripes_and_statistics(tmp_path, write):
    path = write(tmp_path / "a.orc", make_table(12_000))
    _, tail = opened(path)
    with open(path, "rb") as file:
        reader = pyorc.Reader(file)
        for number, stripe in enumerate(reader.iter_stripes()):
            info = tail.stripes[number]
            assert (info.offset, info.end - info.offset, info.rows) == (
                stripe.bytes_offset,
                stripe.bytes_length,
                len(stripe),
            )
            for column in range(1, len(tail.types)):
                expected = stripe[column].statistics
                found = tail.stripe_statistics[number][column]
                assert found.count == expected["number_of_values"]
                assert found.has_null == expected["has_null"]
                if "minimum" in expected:
                    assert (found.minimum, found.maximum) == (expected["minimum"], expected["maximum"])
                if "sum" in expected and isinstance(expected["sum"], int):
                    assert found.total == expected["sum"]
        assert str(reader.schema) == _schema_text(tail, 0)


def _schema_text(tail: Tail, number: int) -> str:
    kind = tail.types[number]
    parts = [_schema_text(tail, part) for part in kind.subtypes]
    if kind.kind == "struct":
        parts = [f"{name}:{part}" for name, part in zip(kind.field_names, parts)]
    return f"{kind.kind}<{','.join(parts)}>" if parts else kind.kind


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(0, 400),
    seed=st.integers(0, 999),
    codec=st.sampled_from(CODECS),
    stride=st.sampled_from([1, 7, 100, 10_000]),
    stripe_bytes=st.sampled_from([1 << 10, 1 << 13]),
)
def test_any_file_of_the_writer_is_understood(tmp_path_factory, rows, seed, codec, stride, stripe_bytes):
    path = tmp_path_factory.mktemp("t") / "a.orc"
    table = make_table(rows, seed)
    write_arrow(path, table, codec, stripe_bytes, stride=stride)
    file, tail = opened(str(path))
    assert tail.rows == rows == sum(stripe.rows for stripe in tail.stripes)
    for number, stripe in enumerate(tail.stripes):
        streams = stripe_streams(file, tail, number)
        assert sum(stream.bytes for stream in streams if stream.is_index) == stripe.index_bytes
        assert sum(stream.bytes for stream in streams) == stripe.index_bytes + stripe.data_bytes
        groups = row_index(file, tail, number, column_id(tail, "small"))
        small = tail.stripe_statistics[number][column_id(tail, "small")]
        assert sum(group.count for group in groups) == small.count


def test_a_file_without_row_index_has_no_row_groups(tmp_path):
    path = write_pyorc(tmp_path / "a.orc", make_table(300), stride=0)
    file, tail = opened(path)
    assert tail.row_index_stride == 0
    assert tail.stripe_statistics[0][1].count == 300
    assert row_index(file, tail, 0, 1) == bloom_filters(file, tail, 0, 1) == ()


@pytest.mark.parametrize("write", [write_arrow, write_pyorc])
@pytest.mark.parametrize("codec", CODECS)
def test_bloom_filters_hold_every_value_of_their_row_group(tmp_path, write, codec):
    table = make_table(1000)
    path = write(tmp_path / "a.orc", table, codec, 1 << 20, bloom=(1, 2, 3, 4))
    file, tail = opened(path)
    asked = {
        "id": might_contain_int,
        "small": might_contain_int,
        "score": might_contain_double,
        "wide": might_contain_double,
    }
    rng = np.random.default_rng(1)
    for name, might_contain in asked.items():
        filters = bloom_filters(file, tail, 0, column_id(tail, name))
        assert len(filters) == 10
        values = table[name].to_pylist()
        others = rng.normal(size=200) if might_contain is might_contain_double else rng.integers(10**6, 10**12, 200)
        wrong = 0
        for group, bloom in enumerate(filters):
            for value in values[group * STRIDE : (group + 1) * STRIDE]:
                assert value is None or might_contain(bloom, value), (name, value)
            wrong += sum(might_contain(bloom, other.item()) for other in others)
        assert wrong < 0.1 * 200 * 10, name  # the writer's share of wrong positives is 0.05
    assert bloom_filters(file, tail, 0, column_id(tail, "flag")) == ()


def test_row_groups_skipped_by_pyorc_are_those_without_a_possible_match(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.integers(0, 10**9, 5000)
    path = str(tmp_path / "a.orc")
    orc.write_table(
        pa.table({"id": values}), path, row_index_stride=STRIDE, bloom_filter_columns=[1], compression="zstd"
    )
    file, tail = opened(path)
    groups, filters = row_index(file, tail, 0, 1), bloom_filters(file, tail, 0, 1)
    for value in [*values[:20].tolist(), *rng.integers(0, 10**9, 60).tolist()]:
        expected = []
        for group, (statistics, bloom) in enumerate(zip(groups, filters)):
            if statistics.minimum <= value <= statistics.maximum and might_contain_int(bloom, value):
                expected += values[group * STRIDE : (group + 1) * STRIDE].tolist()
        with open(path, "rb") as handle:
            predicate = PredicateColumn(pyorc.TypeKind.LONG, "id") == value
            found = [row[0] for row in pyorc.Reader(handle, predicate=predicate)]
        assert found == expected


def test_both_zeros_are_found_by_either(tmp_path):
    path = str(tmp_path / "a.orc")
    table = pa.table({"a": [0.0, 1.0], "b": [-0.0, 1.0], "c": [2.0, 1.0]})
    orc.write_table(table, path, row_index_stride=100, bloom_filter_columns=[1, 2, 3], bloom_filter_fpp=1e-6)
    file, tail = opened(path)
    filters = [bloom_filters(file, tail, 0, column)[0] for column in (1, 2, 3)]
    for zero in (0.0, -0.0):
        assert [might_contain_double(bloom, zero) for bloom in filters] == [True, True, False]
    assert not might_contain_double(filters[0], math.nan)


def test_floats_among_which_is_a_nan_have_no_bounds(tmp_path):
    """The writer keeps a stale maximum there: the value after the NaN is in no statistic of the stripe."""
    path = str(tmp_path / "a.orc")
    orc.write_table(pa.table({"a": [1.0, 2.0, math.nan, 5.0]}), path, row_index_stride=2)
    file, tail = opened(path)
    assert orc.ORCFile(path).nstripes == 1
    for statistics in (tail.column_statistics[1], tail.stripe_statistics[0][1], row_index(file, tail, 0, 1)[1]):
        assert (statistics.minimum, statistics.maximum) == (None, None)
    assert row_index(file, tail, 0, 1)[0].maximum == 2.0


def test_statistics_that_contradict_themselves_are_not_believed():
    class_ = type(orc_messages.parse("ColumnStatistics", b""))
    message = class_(values=3)
    message.integers.minimum, message.integers.maximum = 5, 4
    assert from_message(message).minimum is None
    assert from_message(message).has_null  # not told, so possible


def test_a_column_that_is_not_there_is_named(tmp_path):
    _, tail = opened(write_arrow(tmp_path / "a.orc", make_table(10)))
    with pytest.raises(DataError, match=r"a\.orc: column wrong: expected"):
        column_id(tail, "wrong")


@pytest.mark.parametrize("content", [b"", b"O", b"ORC", b"hello world", b"ORC" + b"\0" * 300, b"ORCxxORC\x03"])
def test_what_is_no_orc_file_is_an_error_with_its_name(tmp_path, content):
    path = tmp_path / "b.orc"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"b\.orc: expected an ORC file"):
        opened(str(path))


def _read_everything(path: str) -> None:
    with pa.OSFile(path) as file:
        tail = read_tail(file, path)
        list(tail.column_statistics)
        for number in range(len(tail.stripes)):
            footer = read_stripe_footer(file, tail, number)
            list(tail.stripe_statistics[number] if tail.stripe_statistics else ())
            for column in range(len(tail.types)):
                row_index(file, tail, number, column, footer)
                bloom_filters(file, tail, number, column, footer)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_anywhere_is_an_error_or_no_matter_but_never_a_crash(tmp_path, codec):
    path = write_arrow(tmp_path / "a.orc", make_table(600), codec, 1 << 12, bloom=(1,))
    whole = (tmp_path / "a.orc").read_bytes()
    _read_everything(path)
    rng = random.Random(5)
    mutated = tmp_path / "m.orc"
    caught = 0
    for turn in range(400):
        content = bytearray(whole)
        if turn % 4 == 0:
            del content[rng.randrange(len(content)) :]
        elif turn % 4 == 1:
            start = rng.randrange(len(content))
            content[start : start + 40] = rng.randbytes(40)
        else:  # near the end, where the tail is
            content[-1 - rng.randrange(min(len(content), 1200))] ^= 1 << rng.randrange(8)
        mutated.write_bytes(content)
        try:
            _read_everything(str(mutated))
        except DataError as error:
            assert str(error).startswith(f"{mutated}: expected")
            caught += 1
    assert caught > 100


def test_a_block_that_would_grow_without_bound_is_refused(tmp_path):
    """A zlib stream of 300 MB of zeros in the place of the footer."""
    import zlib

    packer = zlib.compressobj(wbits=-15)
    block = b"".join(packer.compress(b"\0" * 1_000_000) for _ in range(300)) + packer.flush()
    footer = (len(block) * 2).to_bytes(3, "little") + block
    postscript = orc_messages.build(
        "PostScript", footer_bytes=len(footer), compression=1, block_bytes=1 << 23, metadata_bytes=0, magic=b"ORC"
    )
    path = tmp_path / "c.orc"
    path.write_bytes(b"ORC" + footer + postscript + bytes([len(postscript)]))
    with pytest.raises(DataError, match="zlib block does not end"):
        opened(str(path))


@pytest.mark.parametrize("stripes", [0, 3, 400])
def test_the_key_of_a_file_is_a_hash_of_its_size_and_tail_wherever_it_lies(tmp_path, stripes):
    path = tmp_path / "a.orc"
    with open(path, "wb") as file, pyorc.Writer(file, "struct<x:bigint,y:string>", batch_size=1) as writer:
        for number in range(stripes):
            writer.writerows([(number, "long" * 40)] * 3)
            writer.write_intermediate_footer()
        writer.set_user_metadata(name=random.Random(stripes).randbytes(80_000 if stripes == 400 else 5))
    with open(path, "rb") as file:
        ends = [s.bytes_offset + s.bytes_length for s in pyorc.Reader(file).iter_stripes()]
    content = path.read_bytes()
    tail = content[ends[-1] if ends else 3 :]
    assert (len(tail) > 1 << 16) == (stripes == 400)
    hashed = struct.pack("<Q", len(content)) + tail[-(1 << 16) :]
    key = int.from_bytes(hashlib.blake2b(hashed, digest_size=8).digest(), "little")
    assert read_footer(str(path)).file_key == key
    moved = tmp_path / "day=1" / "b.orc"
    moved.parent.mkdir()
    path.rename(moved)
    assert read_footer(str(moved)).file_key == key
    add_metadata(str(moved), {"another": "file"})
    assert read_footer(str(moved)).file_key != key
