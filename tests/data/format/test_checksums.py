"""Checksums in ORC files: one wrong byte anywhere is found, and where it lies is told."""

from __future__ import annotations

import shutil
import struct
import zlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.errors import DataError
from data.format import checksums
from data.format.checksums import add_checksums, add_metadata, load, verify_index, verify_stripe
from data.format.tail import bloom_filters, column_id, read_stripe_footer, read_tail, row_index, stripe_streams
from data.orc_writer import OrcWriter, Settings
from tests.data import orc_files

CODECS = ("zstd", "zlib", "snappy", "lz4", "none")
SCHEMA = pa.schema([("id", pa.int64()), ("list", pa.list_(pa.int64())), ("value", pa.float32()), ("flag", pa.bool_())])


def make_batch(rows: int, seed: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    columns = [
        pa.array(rng.integers(0, 2**40, rows)),
        pa.array([rng.integers(0, 9, rng.integers(0, 4)).tolist() for _ in range(rows)], pa.list_(pa.int64())),
        pa.array(rng.normal(size=rows).astype(np.float32), mask=rng.random(rows) < 0.1),
        pa.array(rng.random(rows) < 0.5),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def write(path, batches=1, rows=300, metadata=None, **how) -> str:
    with OrcWriter(str(path), SCHEMA, metadata, Settings(**how)) as writer:
        for seed in range(batches):
            writer.write(make_batch(rows, seed))
    return str(path)


def check(path: str) -> int:
    """Reads tail and checksums and compares all; returns the number of stripes."""
    with pa.memory_map(path) as file:
        tail = read_tail(file, path)
        sums = load(file, tail)
        assert sums is not None, "no checksums"
        for stripe in range(len(tail.stripes)):
            verify_stripe(file, sums, stripe)
        return len(tail.stripes)


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_of_the_writer_passes(tmp_path, codec):
    path = write(
        tmp_path / "a.orc", 8, 8000, {"a": "b"}, codec=codec, stripe_bytes=1 << 16, bloom_columns=("id", "value")
    )
    assert check(path) >= 3


@pytest.mark.parametrize("codec", CODECS)
def test_the_value_is_laid_out_as_documented(tmp_path, codec):
    """Decoded by hand, with pyorc's metadata and plain file reads."""
    path = write(tmp_path / "a.orc", 4, 8000, codec=codec, stripe_bytes=1 << 16)
    content = (tmp_path / "a.orc").read_bytes()
    with open(path, "rb") as file:
        reader = pyorc.Reader(file)
        value = reader.user_metadata["ps_cluster.checksums"]
        stripes = [(stripe.bytes_offset, stripe.bytes_length) for stripe in reader.iter_stripes()]
    version, columns, count = struct.unpack_from("<III", value)
    assert (version, columns, count) == (2, 4, len(stripes))
    start, length, crc = struct.unpack_from("<QII", value, 12)
    assert start == sum(stripes[-1])
    assert zlib.crc32(content[start : start + length]) == crc
    position = 28
    for offset, stripe_length in stripes:
        covered = []
        for _ in range(columns + 1):
            index, index_bytes, data, data_bytes, *crcs = struct.unpack_from("<QIQIII", value, position)
            position += 32
            assert crcs == [
                zlib.crc32(content[index : index + index_bytes]),
                zlib.crc32(content[data : data + data_bytes]),
            ]
            covered += [*range(index, index + index_bytes), *range(data, data + data_bytes)]
        assert sorted(covered) == list(range(offset, offset + stripe_length))  # every byte once
    assert struct.unpack_from("<I", value, position) == (zlib.crc32(value[:position]),)
    assert position + 4 == len(value)


@pytest.mark.parametrize("codec", CODECS)
def test_one_wrong_byte_anywhere_is_found(tmp_path, codec):
    path = write(tmp_path / "a.orc", 1, 60, {"name": "value"}, codec=codec, row_index_stride=40, bloom_columns=("id",))
    whole = (tmp_path / "a.orc").read_bytes()
    expected = orc.ORCFile(path).read()
    check(path)
    rng = np.random.default_rng(0)
    postscript_start = len(whole) - 1 - whole[-1]
    mutated = tmp_path / "m.orc"
    # Every byte of one codec's file, some of the others'.
    for position in range(CODECS.index(codec), len(whole), 1 if codec == "zstd" else 6):
        content = bytearray(whole)
        content[position] ^= int(rng.integers(1, 256)) if position % 2 else 1 << int(rng.integers(8))
        mutated.write_bytes(content)
        try:
            check(str(mutated))
        except DataError as error:
            assert str(error).startswith(str(mutated)), error
            continue
        # A few fields of the postscript, such as the version of the writer, change nothing.
        assert position >= postscript_start, f"byte {position} of {len(whole)}"
        assert orc.ORCFile(str(mutated)).read().equals(expected)


@pytest.mark.parametrize("field", [2, 18, 42, 66, 106, 130])
def test_every_bit_around_the_value_is_found(tmp_path, field):
    """The bytes that frame the checksums are covered by no checksum."""
    write(tmp_path / "a.orc", 1, 60)
    whole = (tmp_path / "a.orc").read_bytes()
    name = whole.index(b"ps_cluster.checksums")
    mutated = tmp_path / "m.orc"
    for position in range(name - 12, name + 28):
        content = bytearray(whole)
        content[position] = field
        mutated.write_bytes(content)
        if content != whole:
            with pytest.raises(DataError):
                check(str(mutated))


def test_the_damaged_column_is_named_and_the_others_pass(tmp_path):
    path = write(tmp_path / "a.orc", 4, 8000, stripe_bytes=1 << 16)
    with pa.memory_map(path) as file:
        tail = read_tail(file, path)
        assert len(tail.stripes) >= 2
        streams = [stream for stream in stripe_streams(file, tail, 1) if stream.bytes]
        footer = tail.stripes[1].footer_offset
    owner = {0: None, 1: "id", 2: "list", 3: "list", 4: "value", 5: "flag"}
    places = [(s.offset + s.bytes // 2, owner[s.column], s.is_index) for s in streams]
    for offset, name, is_index in [*places, (footer + 3, None, False)]:
        copy = str(shutil.copy(path, tmp_path / "b.orc"))
        with open(copy, "rb+") as handle:
            handle.seek(offset)
            byte = handle.read(1)[0]
            handle.seek(offset)
            handle.write(bytes([byte ^ 0x10]))
        with pa.memory_map(copy) as file:
            sums = load(file, read_tail(file, copy))
            verify_stripe(file, sums, 0)
            if name:
                what = f"column {name}" + (r" \(index\)" if is_index else "")
            else:
                what = "index of the rows" if is_index else "footer"
            with pytest.raises(DataError, match=rf"b\.orc: stripe 1: {what}: expected CRC"):
                verify_stripe(file, sums, 1, [name] if name else [])
            others = [other for other in SCHEMA.names if other != name]
            if name:
                verify_stripe(file, sums, 1, others)
                verify_index(file, sums, 1, others)
            if is_index and name:
                with pytest.raises(DataError, match=rf"b\.orc: stripe 1: {what}: expected CRC"):
                    verify_index(file, sums, 1, [name])
            elif offset >= footer:  # it says where the indexes lie
                with pytest.raises(DataError, match=r"b\.orc: stripe 1: footer: expected CRC"):
                    verify_index(file, sums, 1, ["id"])
            else:
                verify_index(file, sums, 1, SCHEMA.names)


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(0, 500),
    codec=st.sampled_from(CODECS),
    stride=st.sampled_from([1, 10, 10_000]),
    metadata=st.dictionaries(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=9), st.text()),
)
def test_metadata_added_later_keeps_the_checksums_right(tmp_path_factory, rows, codec, stride, metadata):
    path = tmp_path_factory.mktemp("c") / "a.orc"
    write(path, 1, rows, {"first": "1"}, codec=codec, row_index_stride=stride)
    add_metadata(str(path), metadata)
    size = path.stat().st_size
    add_metadata(str(path), {})
    assert path.stat().st_size == size
    check(str(path))
    with open(path, "rb") as file:
        found = {
            name: value.decode() for name, value in pyorc.Reader(file).user_metadata.items() if name != checksums.KEY
        }
    assert found == {"first": "1"} | metadata
    assert orc.ORCFile(str(path)).read().equals(pa.Table.from_batches([make_batch(rows)]))


def test_files_of_pyorc_with_footers_between_their_stripes_can_have_checksums(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [100, 50, 7])
    with pa.memory_map(path) as file:
        assert load(file, read_tail(file, path)) is None
    before = orc_files.read(path)
    add_checksums(path)
    assert check(path) == 3
    assert orc_files.read(path) == before
    add_checksums(path)
    assert check(path) == 3


def test_a_column_spread_over_the_stripe_is_refused(tmp_path, monkeypatch):
    path = orc_files.numbered(tmp_path / "a.orc", [100])
    whole = checksums.read_stripe_footer

    def spread(*args):
        footer = whole(*args)
        moved = [replace(stream, column=1) if stream.column == 3 else stream for stream in footer.streams]
        return replace(footer, streams=tuple(moved))

    monkeypatch.setattr(checksums, "read_stripe_footer", spread)
    with pytest.raises(DataError, match="column id: expected streams that follow each other"):
        add_checksums(path)


def test_the_checksums_of_another_file_are_found_out(tmp_path):
    first, second = write(tmp_path / "a.orc", 1, 100), write(tmp_path / "b.orc", 1, 101)
    with pa.memory_map(first) as file:
        value = read_tail(file, first).user_metadata[checksums.KEY]
    with pa.memory_map(second) as file:
        tail = read_tail(file, second)
        tail.user_metadata[checksums.KEY] = value
        with pytest.raises(DataError, match=r"b\.orc: "):
            load(file, tail)


def test_the_name_of_the_checksums_is_not_to_be_used(tmp_path):
    path = write(tmp_path / "a.orc", 1, 10)
    with pytest.raises(ValueError, match="expected other names"):
        add_metadata(path, {checksums.KEY: b""})


class Counting:
    """A file, and what was read of it: (offset, length)."""

    def __init__(self, file):
        self.file, self.reads = file, []

    def read_at(self, length, offset):
        self.reads.append((offset, length))
        return self.file.read_at(length, offset)


def test_ranges_that_touch_are_read_at_once(tmp_path):
    path = write(tmp_path / "a.orc", 1, 300)

    with pa.memory_map(path) as file:
        tail = read_tail(file, path)
        sums = load(file, tail)
        counting = Counting(file)
        verify_stripe(counting, sums, 0)
        stripe = tail.stripes[0]
        assert counting.reads == [(stripe.offset, stripe.end - stripe.offset)]


def test_of_an_index_only_its_bytes_and_the_stripes_footer_are_read_and_kept(tmp_path):
    path = write(tmp_path / "a.orc", 1, 300, row_index_stride=50, bloom_columns=("id", "value"))
    content = (tmp_path / "a.orc").read_bytes()
    with pa.memory_map(path) as file:
        tail = read_tail(file, path)
        counting = Counting(file)
        index = verify_index(counting, load(file, tail), 0, ["id", "value"])
        footer = read_stripe_footer(index, tail, 0)
        of_columns = {
            name: [s for s in footer.streams if s.is_index and s.column == column_id(tail, name)]
            for name in SCHEMA.names
        }
        expected = [(s[0].offset, sum(one.bytes for one in s)) for s in (of_columns["id"], of_columns["value"])]
        info = tail.stripes[0]
        assert counting.reads == [*expected, (info.footer_offset, info.footer_bytes)]
        for name in ("id", "value"):
            column = column_id(tail, name)
            assert row_index(index, tail, 0, column) == row_index(file, tail, 0, column)
            assert len(bloom_filters(index, tail, 0, column)) == 6
            for stream in of_columns[name]:
                assert index.read_at(stream.bytes, stream.offset) == content[stream.offset :][: stream.bytes]
        with pytest.raises(DataError, match="an index that they do not cover"):
            row_index(index, tail, 0, column_id(tail, "flag"))
