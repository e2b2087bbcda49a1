"""Lengths of lists, decoded here, against what pyarrow and pyorc wrote; and damage that would crash a decoder."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.columns import Column
from data.errors import DataError
from data.format import blocks as orc_blocks
from data.format.tail import read_tail, stripe_streams
from data.orc_writer import OrcWriter
from data.read import list_lengths
from data.read.stripes import Part, Stripe
from tests.data.mutated_files import Bases

# Runs of all encodings: repeats, steps, small and large numbers, and few large ones among small ones.
LENGTHS = st.lists(
    st.one_of(
        st.tuples(st.just("repeat"), st.integers(0, 300), st.integers(1, 20)),
        st.tuples(st.just("step"), st.integers(0, 50), st.integers(1, 30)),
        st.tuples(st.just("random"), st.integers(1, 12), st.integers(1, 700)),
        st.tuples(st.just("outliers"), st.integers(100, 3000), st.integers(40, 500)),
    ),
    min_size=1,
    max_size=5,
)


def lengths_of(shape: list[tuple[str, int, int]]) -> np.ndarray:
    random = np.random.default_rng(len(shape))
    pieces = []
    for kind, size, count in shape:
        if kind == "repeat":
            pieces.append(np.full(count, size))
        elif kind == "step":
            pieces.append(size + 3 * np.arange(count))
        elif kind == "random":
            pieces.append(random.integers(0, size, count))
        else:
            piece = random.integers(0, 8, count)
            piece[random.integers(0, count, 2)] = size
            pieces.append(piece)
    return np.concatenate(pieces)


def decoded(path: str, encoding: int) -> list[int]:
    with pa.OSFile(path) as file:
        tail = read_tail(file, path)
        (stream,) = [s for s in stripe_streams(file, tail, 0) if s.kind == "LENGTH"]
        content = orc_blocks.decompress(
            file.read_at(stream.bytes, stream.offset), tail.codec, tail.block_bytes, 1 << 28
        )
    return [int(value) for run in list_lengths.runs(content, encoding) for value in run]


@settings(max_examples=150, deadline=None)
@given(shape=LENGTHS, strategy=st.sampled_from(["speed", "compression"]), version=st.sampled_from(["0.11", "0.12"]))
def test_lengths_are_those_that_were_written(tmp_path_factory, shape, strategy, version):
    lengths = lengths_of(shape)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.zeros(offsets[-1], np.int64)))
    path = str(tmp_path_factory.mktemp("l") / "a.orc")
    with orc.ORCWriter(path, compression="zstd", compression_strategy=strategy, file_version=version) as writer:
        writer.write(pa.table({"a": values}))
    assert decoded(path, 0 if version == "0.11" else 2) == lengths.tolist()


def test_nulls_have_no_length(tmp_path):
    path = str(tmp_path / "a.orc")
    with open(path, "wb") as file, pyorc.Writer(file, "struct<a:array<bigint>>") as writer:
        writer.writerows([([1, 2],), (None,), ([],), ([3],)])
    assert decoded(path, 2) == [2, 0, 1]


@pytest.mark.parametrize(
    ("content", "encoding", "problem"),
    [
        (b"\x41", 2, "cut short"),
        (b"\x7f\xff\x00\x01", 2, "cut short"),
        (b"\x05", 0, "cut short"),
        (b"\x00", 3, "encoding number 3"),
        (b"\xc0\x05" + b"\xff" * 11, 2, "more than 64 bits"),
    ],
)
def test_what_is_no_run_is_told(content, encoding, problem):
    with pytest.raises(list_lengths.LengthsError, match=problem):
        list(list_lengths.runs(content, encoding))


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=40), encoding=st.sampled_from([0, 2]))
def test_any_bytes_are_numbers_or_an_error(content, encoding):
    try:
        for run in list_lengths.runs(content, encoding):
            assert run.dtype == np.int64
    except list_lengths.LengthsError:
        pass


@pytest.mark.parametrize("number", [1026, 1236])
def test_damage_that_would_crash_the_decoder_is_told_by_file_stripe_and_column(tmp_path, number):
    path = tmp_path / "a.orc"
    path.write_bytes(Bases(tmp_path).mutated(number)[2])
    part = Part(Stripe(str(path), 0, 0, 600), 0, 600)
    columns = (Column("id", "int64"), Column("items", "int64_list"))
    with pytest.raises(DataError, match=f"^{path}: stripe 0: column items: expected the lengths of its lists, found"):
        list_lengths.check([part], columns, True)
    list_lengths.check([part], columns[:1], True)


def test_files_with_checksums_are_left_to_those(tmp_path, monkeypatch):
    path = str(tmp_path / "a.orc")
    with OrcWriter(path, pa.schema([("items", pa.list_(pa.int64()))])) as writer:
        writer.write(pa.table({"items": pa.array([[1], []], pa.list_(pa.int64()))}))
    part = Part(Stripe(path, 0, 0, 2), 0, 2)
    columns = (Column("items", "int64_list"),)
    looked_at = []
    monkeypatch.setattr(list_lengths, "_check", lambda *which: looked_at.append(which[2:]))
    list_lengths.check([part], columns, True)
    assert looked_at == []
    list_lengths.check([part], columns, False)
    assert looked_at == [(0, "items")]
