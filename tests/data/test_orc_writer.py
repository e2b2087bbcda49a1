"""The ORC writer against independent readers (pyorc, pyarrow)."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from data.format import checksums
from data.format.checksums import add_metadata
from data.format.tail import bloom_filters, read_tail, row_groups
from data.orc_writer import OrcWriter, Settings
from tests.data import orc_files

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.float32()), ("list", pa.list_(pa.int64())), ("label", pa.int64())])


def make_batch(rows: int, seed: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    lists = [rng.integers(0, 1000, size=rng.integers(0, 5)).tolist() for _ in range(rows)]
    columns = [
        pa.array(rng.integers(-(2**62), 2**62, rows)),
        pa.array(rng.normal(size=rows).astype(np.float32)),
        pa.array(lists, pa.list_(pa.int64())),
        pa.array(rng.integers(0, 2, rows)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def own_metadata(reader: pyorc.Reader) -> dict[str, str]:
    """What was given to the writer: all metadata but the checksums."""
    return {name: value.decode() for name, value in reader.user_metadata.items() if name != checksums.KEY}


def test_pyorc_reads_back_rows_and_metadata(tmp_path):
    path = str(tmp_path / "a b.orc")
    batches = [make_batch(1000, 1), make_batch(0), make_batch(777, 2)]
    with OrcWriter(path, SCHEMA, {"seed": "7", "übung": "ja" * 100}) as writer:
        for batch in batches:
            writer.write(batch)
    with open(path, "rb") as file:
        reader = pyorc.Reader(file)
        assert own_metadata(reader) == {"seed": "7", "übung": "ja" * 100}
        found = list(reader)
    expected = [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()]
    assert found == expected
    assert writer.rows == 1777
    assert os.listdir(tmp_path) == ["a b.orc"]


def test_metadata_can_be_added_twice_and_pyarrow_still_reads_the_file(tmp_path):
    path = str(tmp_path / "a.orc")
    with OrcWriter(path, SCHEMA, {"first": "1"}) as writer:
        writer.write(make_batch(10))
    add_metadata(path, {"second": "x" * 3_000_000})
    add_metadata(path, {"third": "3"})
    with open(path, "rb") as file:
        assert {k: len(v) for k, v in own_metadata(pyorc.Reader(file)).items()} == {
            "first": 1,
            "second": 3_000_000,
            "third": 1,
        }
    assert orc.ORCFile(path).read().equals(pa.Table.from_batches([make_batch(10)]))


# pyorc hands names over as C strings, so no NUL in a name.
NAMES = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=20, deadline=None)
@given(metadata=st.dictionaries(NAMES, st.text(max_size=300), max_size=4))
def test_any_text_survives_as_metadata(tmp_path_factory, metadata):
    path = str(tmp_path_factory.mktemp("m") / "a.orc")
    with OrcWriter(path, SCHEMA, metadata) as writer:
        writer.write(make_batch(3))
    with open(path, "rb") as file:
        assert own_metadata(pyorc.Reader(file)) == metadata


def test_a_file_without_rows_keeps_its_columns(tmp_path):
    path = str(tmp_path / "a.orc")
    with OrcWriter(path, SCHEMA):
        pass
    assert orc.ORCFile(path).nrows == 0
    assert orc.ORCFile(path).schema.names == SCHEMA.names


def test_an_error_while_writing_leaves_no_file(tmp_path):
    path = str(tmp_path / "a.orc")
    with pytest.raises(KeyError), OrcWriter(path, SCHEMA) as writer:
        writer.write(make_batch(100))
        raise KeyError("stop")
    assert os.listdir(tmp_path) == []


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path):
    path = str(tmp_path / "a.orc")
    for rows in (5, 9):
        writer = OrcWriter(path, SCHEMA)
        writer.write(make_batch(rows))
        if rows == 9:
            assert orc.ORCFile(path).nrows == 5
        writer.close()
    assert orc.ORCFile(path).nrows == 9


def test_a_batch_of_another_schema_is_refused(tmp_path):
    with (
        pytest.raises(ValueError, match=r"a\.orc: expected"),
        OrcWriter(str(tmp_path / "a.orc"), SCHEMA) as w,
    ):
        w.write(pa.RecordBatch.from_pydict({"id": [1]}))


@settings(max_examples=30, deadline=None)
@given(pieces=st.lists(st.integers(0, 900), max_size=6), stripe_rows=st.integers(1, 1000))
def test_a_stripe_has_the_rows_it_should_however_they_are_written(tmp_path_factory, pieces, stripe_rows):
    path = str(tmp_path_factory.mktemp("s") / "a.orc")
    rows = sum(pieces)
    batch = make_batch(rows)
    start = 0
    with OrcWriter(path, SCHEMA, settings=Settings(stripe_rows=stripe_rows)) as writer:
        for piece in pieces:
            writer.write(batch.slice(start, piece))
            start += piece
    assert orc_files.stripe_rows(path) == [min(stripe_rows, rows - k) for k in range(0, rows, stripe_rows)]
    assert orc.ORCFile(path).read().equals(pa.Table.from_batches([batch]))


def test_wide_rows_make_smaller_stripes(tmp_path):
    path = str(tmp_path / "a.orc")
    table = pa.table({"list": pa.array([list(range(1000))] * 500, pa.list_(pa.int64()))})
    with OrcWriter(path, table.schema, settings=Settings(stripe_bytes=800_000)) as writer:
        for piece in (table.slice(0, 30), table.slice(30)):
            writer.write(piece)
    rows = orc_files.stripe_rows(path)
    assert all(95 <= count <= 105 for count in rows[:-1]) and sum(rows) == 500
    assert orc.ORCFile(path).read().equals(table)


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path):
    """A process whose files may not grow over 1 MiB: the kernel refuses the write as a full disk would."""
    script = """
import resource, signal, sys
import numpy as np, pyarrow as pa
from data.orc_writer import OrcWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    with OrcWriter(sys.argv[1], pa.schema([("a", pa.int64())])) as writer:
        for seed in range(20):
            writer.write(pa.table({"a": np.random.default_rng(seed).integers(0, 2**60, 100_000)}))
except OSError as error:
    print("caught", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.orc")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("caught")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("codec", ["zstd", "zlib", "snappy", "lz4", "none"])
def test_every_setting_reaches_the_file(tmp_path, codec):
    path = str(tmp_path / "a.orc")
    how = Settings(
        codec,
        stripe_rows=7000,
        block_bytes=1 << 17,
        row_index_stride=500,
        strategy="speed",
        bloom_columns=("id", "label", "value"),
        bloom_fpp=0.01,
    )
    batches = [make_batch(20_000, seed) for seed in range(3)]
    with OrcWriter(path, SCHEMA, {"a": "b"}, how) as writer:
        for batch in batches:
            writer.write(batch)
    with open(path, "rb") as file:
        reader = pyorc.Reader(file)
        assert reader.compression == pyorc.CompressionKind[codec.upper()]
        assert reader.row_index_stride == 500
        assert reader.compression_block_size == 1 << 17
        assert own_metadata(reader) == {"a": "b"}
    assert orc.ORCFile(path).nstripes == 9
    assert orc.ORCFile(path).read().equals(pa.Table.from_batches(batches))
    with pa.OSFile(path) as file:
        tail = read_tail(file, path)
        found = [len(bloom_filters(file, tail, 0, column)) for column in range(len(tail.types))]
        groups = row_groups(tail, 0)
    assert found == [0, groups, groups, 0, 0, groups]  # root, id, value, list, its items, label


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"codec": "lzo"}, "codec"),
        ({"strategy": "best"}, "strategy"),
        ({"stripe_rows": 0}, "stripe_rows"),
        ({"stripe_bytes": 0}, "stripe_bytes"),
        ({"block_bytes": 1000}, "block_bytes"),
        ({"row_index_stride": 0}, "row_index_stride"),
        ({"bloom_fpp": 1.0}, "bloom_fpp"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, field):
    with pytest.raises(ValueError, match=f"^{field}: expected"):
        Settings(**wrong)


@pytest.mark.parametrize("name", ["list", "nowhere"])
def test_a_bloom_filter_on_what_is_no_number_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"bloom_columns: expected .* found {name}"):
        OrcWriter(str(tmp_path / "a.orc"), SCHEMA, settings=Settings(bloom_columns=(name,)))
    assert os.listdir(tmp_path) == []
