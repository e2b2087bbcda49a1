"""TFRecord files that are cut, hold other things, or change their features' kinds on the way."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from data.convert.convert import Settings, convert
from data.convert.read_tfrecord import read, record_count
from data.convert.schema import SamplesSchema
from data.convert.sources import describe, units_of
from data.errors import DataError
from tests.data.convert import logs

SCHEMA = SamplesSchema.model_validate(
    {"columns": [{"name": "user", "kind": "id"}, {"name": "city", "kind": "hashed_id"}]}, strict=True
)


def write(path: Path, records: list[Any], options: str | None = None) -> bytes:
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else logs.example(record).SerializeToString())
    return path.read_bytes()


def framed(data: bytes) -> tuple[int, bool]:
    """Whole records in `data`, and whether they are all that is in it."""
    count = 0
    while len(data) >= 16 and len(data) >= 16 + (length := int.from_bytes(data[:8], "little")):
        count, data = count + 1, data[16 + length :]
    return count, not data


ROWS = [{"user": i, "city": f"city {i}"} for i in range(4)]


def test_a_file_cut_at_any_byte_is_told_unless_it_ends_with_a_record(tmp_path):
    whole = write(tmp_path / "whole", ROWS)
    path = tmp_path / "a.tfrecord"
    for cut in range(1, len(whole) + 1):
        path.write_bytes(whole[:cut])
        count, problem = record_count(describe(str(path), "tfrecord"))
        assert (count, problem is None) == framed(whole[:cut])


def test_a_gzipped_file_cut_at_any_byte_is_told(tmp_path):
    plain = write(tmp_path / "whole", ROWS)
    path = tmp_path / "a.tfrecord.gz"
    for members in ([plain], [plain[:70], plain[70:]]):
        whole = b"".join(map(gzip.compress, members))
        ends = [len(gzip.compress(members[0])), len(whole)]
        for cut in range(3, len(whole) + 1):
            path.write_bytes(whole[:cut])
            _, problem = record_count(describe(str(path), "tfrecord"))
            # Between two members lies no damage that could be told, but half a record.
            assert (problem is None) == (cut == len(whole)), (cut, ends, problem)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_cut_that_tensorflow_reads_over_is_damage(tmp_path, zipped):
    plain = write(tmp_path / "whole", ROWS)
    size = len(plain) // 4
    path = tmp_path / "a.tfrecord"
    for cut in (2 * size + 1, 2 * size + 11):
        path.write_bytes(gzip.compress(plain[:cut]) if zipped else plain[:cut])
        with pytest.raises(DataError, match=r"a.tfrecord: expected TFRecords.* that can be read, found: .*cut off"):
            convert([str(path)], SCHEMA, str(tmp_path / "out"), Settings(overwrite=True))
        kept = convert([str(path)], SCHEMA, str(tmp_path / "out"), Settings(on_bad="skip", overwrite=True))
        assert (kept["rows"], len(kept["damaged"])) == (2, 1)
    path.write_bytes(gzip.compress(plain[:2]) if zipped else plain[:2])
    with pytest.raises(DataError, match=r"that can be read, found: .*cut off"):
        convert([str(path)], SCHEMA, str(tmp_path / "out"), Settings(overwrite=True))


@pytest.mark.parametrize(
    ("records", "zipped", "message"),
    [
        ([b"\xff\xff", b"no"], False, "expected records of tf.train.Example, found others"),
        ([], True, "expected samples, found an empty file"),
        ([], False, "expected samples, found an empty file"),
        ([{"user": 1, "city": 0.5}], False, "column city: expected texts or integers for kind hashed_id, found list"),
        ([{"user": 1, "a\nb": 2}], False, "column city: expected a feature of that name in the first 1,000 records"),
    ],
)
def test_files_without_the_samples_are_told(tmp_path, records, zipped, message):
    write(tmp_path / "a.tfrecord", records, "GZIP" if zipped else None)
    with pytest.raises(DataError) as error:
        convert([str(tmp_path)], SCHEMA, str(tmp_path / "out"))
    assert message in str(error.value)
    assert str(error.value).count("\n") == 0


@pytest.mark.parametrize("batch_rows", [2, 4096])
def test_a_float_among_texts_is_a_bad_row_whatever_stands_beside_it(tmp_path, monkeypatch, batch_rows):
    monkeypatch.setattr("data.convert.read_tfrecord.BATCH_ROWS", batch_rows)
    records: list[dict[str, Any]] = [{"user": i, "city": "x"} for i in range(300)]
    for place in (64, 65, 120, 299):
        records[place] = {"user": place, "city": 0.5}
    records[130] = {"user": "130", "city": 7}
    records[131] = {"user": 131.0, "city": "x"}
    write(tmp_path / "a.tfrecord", records)
    (unit,) = units_of(describe(str(tmp_path / "a.tfrecord"), "tfrecord"))
    raws = list(read(unit, SCHEMA, 0))
    bad = [(row.row, row.column, row.expected, row.found) for raw in raws for row in raw.bad]
    assert bad == [(place, "city", "texts or integers", "floats, [0.5]") for place in (64, 65, 120, 299)]
    manifest = convert([str(tmp_path / "a.tfrecord")], SCHEMA, str(tmp_path / "out"), Settings(on_bad="skip"))
    assert [row["user"] for row in logs.read(tmp_path / "out")] == [
        i for i in range(300) if i not in (64, 65, 120, 299)
    ]
    assert manifest["counts"]["bad_rows"] == {"city: expected texts or integers": 4}
