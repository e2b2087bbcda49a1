"""Whole conversions, from files of every format to training files and their manifest."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyorc
import pytest
import tensorflow as tf
from pyarrow import orc

from data.convert.convert import Settings, convert
from data.convert.infer import infer
from data.convert.to_tfrecord import to_tfrecord
from data.convert.work import locked
from data.errors import DataError
from data.paths import expand
from tests.data.convert import logs

ONE = Settings(memory_bytes=1)  # the least: many small runs


@pytest.fixture(autouse=True)
def small_runs(monkeypatch):
    """Runs of a few dozen rows, so that there is something to merge."""
    monkeypatch.setattr("data.convert.convert._MOST_RUN_BYTES", 5_000)
    monkeypatch.setattr("data.convert.raw.BATCH_ROWS", 64)
    for module in ("read_columnar", "read_tfrecord"):
        monkeypatch.setattr(f"data.convert.{module}.BATCH_ROWS", 64)
    monkeypatch.setattr("data.convert.read_text.BLOCK_BYTES", 4_000)


@pytest.mark.parametrize("ending", logs.FORMATS)
def test_every_format_gives_the_rows_of_the_reference_in_order(tmp_path, ending):
    rows = logs.make_rows(700)
    logs.write(str(tmp_path / f"a.{ending}"), rows[:400])
    logs.write(str(tmp_path / f"b.{ending}"), rows[400:])
    manifest = convert([f"*.{ending}"], logs.schema(), str(tmp_path / "out"), ONE, base=str(tmp_path))
    assert [file["rows"] for file in manifest["files"]] == [300, 300, 100]
    expected = logs.expected_rows(rows, logs.schema())
    assert logs.read(tmp_path / "out") == expected
    assert sorted(os.listdir(tmp_path)) == [f"a.{ending}", f"b.{ending}", "out"]


def test_the_same_rows_give_the_same_files_whatever_the_format_and_memory(tmp_path, monkeypatch):
    rows = logs.make_rows(500)
    made = []
    for ending in logs.FORMATS:
        folder = tmp_path / ending
        folder.mkdir()
        logs.write(str(folder / f"log.{ending}"), rows)
        convert([str(folder)], logs.schema(), str(folder / "out"), ONE)
        made.append(logs.contents(folder / "out"))
    monkeypatch.setattr("data.convert.convert._MOST_RUN_BYTES", 1 << 30)
    folder = tmp_path / "csv"
    convert([str(folder / "log.csv")], logs.schema(), str(folder / "again"), Settings(memory_bytes=1 << 30))
    made.append(logs.contents(folder / "again"))
    for files in made:
        assert [orc_rows(data) for name, data in files.items() if name != "manifest.json"] == [
            orc_rows(data) for name, data in made[0].items() if name != "manifest.json"
        ]
    assert made[-1] == made[0]


def orc_rows(data: bytes) -> list:
    return orc.ORCFile(pa.BufferReader(data)).read().to_pylist()


@pytest.mark.parametrize("layout", [{"sort": []}, {"sort": [], "group_by": "user_id"}, {"sort": ["timestamp"]}])
def test_other_orders(tmp_path, layout):
    rows = logs.make_rows(400)
    for number in range(4):
        logs.write(str(tmp_path / f"{number}.csv"), rows[100 * number : 100 * number + 100])
    schema = logs.schema(**layout)
    manifest = convert([str(tmp_path / "*.csv")], schema, str(tmp_path / "out"), ONE)
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows, schema)
    assert manifest["sort"] == list(schema.sort_columns)


# A process that reads TFRecord takes seconds to start.
@pytest.mark.parametrize(
    "endings", [["csv", "parquet", "tsv.gz"], pytest.param(["tfrecord"] * 3, marks=pytest.mark.slow)]
)
def test_two_processes_write_the_same_bytes_as_one(tmp_path, endings):
    rows = logs.make_rows(900)
    for number, ending in enumerate(endings):
        logs.write(str(tmp_path / f"{number}.{ending}"), rows[300 * number : 300 * number + 300])
    sources = [str(tmp_path / "*.*")]
    convert(sources, logs.schema(), str(tmp_path / "one"), ONE)
    convert(sources, logs.schema(), str(tmp_path / "two"), Settings(processes=2))
    assert logs.contents(tmp_path / "one") == logs.contents(tmp_path / "two")
    assert logs.read(tmp_path / "two") == logs.expected_rows(rows, logs.schema())


def test_the_manifest_and_the_files_metadata_say_what_is_inside(tmp_path):
    rows = logs.make_rows(400)
    source = logs.write(str(tmp_path / "log.parquet"), rows)
    schema = logs.schema(hash_seed=7, output={"rows_per_file": 250, "bloom_columns": ["city"]})
    manifest = convert([source], schema, str(tmp_path / "out"), ONE)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text()) == manifest
    expected = logs.expected_rows(rows, schema)
    assert expand([str(tmp_path / "out")], "") == [
        str(tmp_path / "out" / name) for name in ("part-00000.orc", "part-00001.orc")
    ]
    for file, part in zip(manifest["files"], (expected[:250], expected[250:])):
        data = (tmp_path / "out" / file["name"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert (file["time_min"], file["time_max"]) == tuple(f(row["timestamp"] for row in part) for f in (min, max))
        assert (file["user_min"], file["user_max"]) == (part[0]["user_id"], part[-1]["user_id"])
        with open(tmp_path / "out" / file["name"], "rb") as opened:
            metadata = pyorc.Reader(opened).user_metadata
        assert metadata["ps_cluster.rows"] == str(len(part)).encode()
        assert json.loads(metadata["ps_cluster.hash"]) == {
            "name": "farmhash.fingerprint64",
            "seed": 7,
            "empty_id": 0,
            "missing_id": -1,
        }
        assert json.loads(metadata["ps_cluster.sort"]) == ["user_id", "timestamp"]
        assert json.loads(metadata["ps_cluster.sources"]) == {"files": 1, "first": ["log.parquet"]}
        assert json.loads(metadata["ps_cluster.schema"]) == schema.model_dump(mode="json")
    status = os.stat(source)
    assert manifest["identity"]["sources"] == [
        {"path": source, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "format": "parquet"}
    ]
    counts = manifest["counts"]
    assert counts["rows_read"] == 400
    assert counts["nulls"]["city"] == sum(row["city"] is None for row in rows)
    assert counts["hashed"]["city"] == {"distinct_ids": 4, "collisions": 0, "moved": 0}


def bad_csv(path: Path) -> Path:
    lines = ["user,time,label,city,history,tags,price"]
    lines += [f'{n},1600000000,1,"a\nb",1,x,0.5' for n in range(200)]
    lines[51] = "50,1600000000,maybe,c,1,x,0.5"
    lines[101] = "100,1600000000,1"
    lines[151] = "150,1600000000,1,c,1;2,x,0.5"
    lines[200] = "199"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_bad_row_is_told_with_file_row_line_and_column(tmp_path):
    path = bad_csv(tmp_path / "log.csv")
    # Each row before it has a line break of its own.
    expected = f"{path}: row 51 (line 102): column label: expected 0 or 1, found 'maybe'"
    with pytest.raises(DataError) as error:
        convert([str(path)], logs.schema(), str(tmp_path / "out"), ONE)
    assert str(error.value) == expected
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_bad_rows_are_skipped_and_counted_by_reason(tmp_path):
    path = bad_csv(tmp_path / "log.csv")
    manifest = convert([str(path)], logs.schema(), str(tmp_path / "out"), Settings(on_bad="skip"))
    assert manifest["counts"]["bad_rows"] == {
        "expected 7 columns": 2,
        "history: expected integers of 64 bits": 1,
        "label: expected 0 or 1": 1,
    }
    assert manifest["counts"]["rows_read"] == 200
    assert [row["user_id"] for row in logs.read(tmp_path / "out")] == sorted({*range(199)} - {50, 100, 150})


def test_a_record_that_is_no_example_is_a_bad_row(tmp_path):
    rows = logs.make_rows(30)
    with tf.io.TFRecordWriter(str(tmp_path / "log.tfrecord")) as writer:
        for number, row in enumerate(rows):
            writer.write(b"\xff\xff" if number == 20 else logs.example(row).SerializeToString())
    with pytest.raises(DataError, match=r"log.tfrecord: row 21: expected a tf.train.Example, found other bytes"):
        convert([str(tmp_path)], logs.schema(), str(tmp_path / "out"), ONE)
    manifest = convert([str(tmp_path / "log.tfrecord")], logs.schema(), str(tmp_path / "out"), Settings(on_bad="skip"))
    assert manifest["rows"] == 29


@pytest.mark.parametrize("ending", ["tsv.gz", "parquet", "orc", "tfrecord", "tfrecord.gz"])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_damaged_files_are_named(tmp_path, ending, damage):
    path = logs.write(str(tmp_path / f"log.{ending}"), logs.make_rows(3000))
    data = bytearray(Path(path).read_bytes())
    if damage == "cut":
        data = data[: len(data) * 2 // 3]
    else:
        place = len(data) // 2
        data[place : place + 64] = random.Random(5).randbytes(64)
    Path(path).write_bytes(data)
    with pytest.raises(DataError, match=f"log.{ending}: (expected|row)"):
        convert([path], logs.schema(), str(tmp_path / "out"), Settings())


@pytest.mark.parametrize("ending", ["tfrecord", "tsv.gz"])
def test_what_lies_before_damage_can_be_kept(tmp_path, ending):
    rows = logs.make_rows(1000)
    path = logs.write(str(tmp_path / f"log.{ending}"), rows)
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    schema = logs.schema(sort=[])
    manifest = convert([path], schema, str(tmp_path / "out"), Settings(on_bad="skip"))
    assert len(manifest["damaged"]) == 1
    assert path in manifest["damaged"][0]
    assert 0 < manifest["rows"] < 1000
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows, schema)[: manifest["rows"]]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("log.csv", b"", "expected samples, found an empty file"),
        (
            "log.csv",
            b"user,time\n1,2\n",
            "column label: expected it among the columns user, time, found no such column",
        ),
        ("log.csv", b"user,user\n1,2\n", "expected each column once in the header, found user again"),
        ("log.parquet", b"PAR1 is not all", "expected a Parquet file that can be read"),
        ("log.orc", b"ORC is not all", "log.orc"),
        ("log.bin", b"\0\1\2\3", "expected TFRecord, CSV, TSV, Parquet or ORC, found other bytes"),
    ],
)
def test_files_that_cannot_be_sources(tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        convert([name], logs.schema(), str(tmp_path / "out"), ONE, base=str(tmp_path))
    assert name in str(error.value)
    assert text in str(error.value)
    assert not (tmp_path / "out").exists()


def test_formats_are_told_by_content_where_the_name_says_nothing(tmp_path):
    rows = logs.make_rows(40)
    for number, ending in enumerate(logs.FORMATS):
        made = logs.write(str(tmp_path / f"log.{ending}"), rows)
        os.rename(made, tmp_path / f"source-{number}")
    convert([str(tmp_path)], logs.schema(), str(tmp_path / "out"), ONE)
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows * len(logs.FORMATS), logs.schema())


def test_a_feature_that_no_record_holds_is_an_error(tmp_path):
    path = logs.write(str(tmp_path / "log.tfrecord"), [{"user": 1, "time": 1, "label": 1}])
    with pytest.raises(
        DataError, match=r"column city: expected a feature of that name .* found only label, time, user"
    ):
        convert([path], logs.schema(), str(tmp_path / "out"), ONE)


def test_absent_and_empty_features_are_told_apart(tmp_path):
    train = tf.train
    examples = []
    for history, city in ((None, None), ([], [b""]), ([5], [b"history"])):
        example = logs.example({"user": 1, "time": 1, "label": 1, "tags": "", "price": 1.0})
        if history is not None:
            example.features.feature["history"].CopyFrom(train.Feature(int64_list=train.Int64List(value=history)))
        if city is not None:
            example.features.feature["city"].CopyFrom(train.Feature(bytes_list=train.BytesList(value=city)))
        examples.append(example)
    with tf.io.TFRecordWriter(str(tmp_path / "log.tfrecord")) as writer:
        for example in examples:
            writer.write(example.SerializeToString())
    convert([str(tmp_path)], logs.schema(sort=[]), str(tmp_path / "out"), ONE)
    rows = logs.read(tmp_path / "out")
    assert [row["history"] for row in rows] == [None, [], [5]]
    assert [row["city"] for row in rows][:2] == [None, 0]


def test_features_that_change_their_kind_are_read(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "log.tfrecord")) as writer:
        for number, row in enumerate(logs.make_rows(300)):
            row["user"] = number if number % 2 else str(number)
            writer.write(logs.example(row).SerializeToString())
    convert([str(tmp_path)], logs.schema(sort=[]), str(tmp_path / "out"), ONE)
    assert [row["user_id"] for row in logs.read(tmp_path / "out")] == list(range(300))


def test_csv_without_header_with_other_nulls_and_separator(tmp_path):
    (tmp_path / "log").write_text('1;2;1;NULL;"";"NULL";0.5\n')
    names = ["user", "time", "label", "city", "history", "tags", "price"]
    source = {"format": "csv", "separator": ";", "header": False, "column_names": names, "null_texts": ["NULL"]}
    convert([str(tmp_path / "log")], logs.schema(source=source), str(tmp_path / "out"), ONE)
    (row,) = logs.read(tmp_path / "out")
    assert (row["city"], row["history"], len(row["tags"])) == (None, [], 1)


def test_a_finished_conversion_is_left_alone_and_another_one_refused(tmp_path):
    source = logs.write(str(tmp_path / "log.csv"), logs.make_rows(50))
    out = str(tmp_path / "out")
    first = convert([source], logs.schema(), out, ONE)
    before = os.stat(tmp_path / "out" / "part-00000.orc")
    assert convert([source], logs.schema(), out, ONE) == first
    assert os.stat(tmp_path / "out" / "part-00000.orc") == before
    with pytest.raises(DataError, match=r"found a finished conversion with other schema; --overwrite removes it"):
        convert([source], logs.schema(hash_seed=1), out, ONE)
    other = logs.write(str(tmp_path / "other.csv"), logs.make_rows(20))
    with pytest.raises(DataError, match=r"other sources \(.*log.csv and others\)"):
        convert([other], logs.schema(), out, ONE)
    assert convert([other], logs.schema(), out, Settings(overwrite=True))["rows"] == 20


def test_strange_files_are_never_removed(tmp_path):
    source = logs.write(str(tmp_path / "log.csv"), logs.make_rows(50))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("x")
    for settings in (Settings(), Settings(overwrite=True)):
        with pytest.raises(DataError, match="expected"):
            convert([source], logs.schema(), str(tmp_path / "out"), settings)
    assert (tmp_path / "out" / "thesis.txt").read_text() == "x"


def test_an_output_in_use_is_refused(tmp_path):
    source = logs.write(str(tmp_path / "log.csv"), logs.make_rows(50))
    out = str(tmp_path / "out")
    with locked(out), pytest.raises(DataError, match="found another conversion writing there"):
        convert([source], logs.schema(), out, ONE)
    convert([source], logs.schema(), out, ONE)


def test_all_rows_bad_or_no_rows_give_a_readable_file(tmp_path):
    (tmp_path / "log.csv").write_text("user,time,label,city,history,tags,price\nx,1,1,a,1,b,1\n")
    manifest = convert([str(tmp_path)], logs.schema(), str(tmp_path / "out"), Settings(on_bad="skip"))
    assert manifest["rows"] == 0
    assert logs.read(tmp_path / "out") == []


def test_a_parquet_files_row_groups_are_shared_out(tmp_path, monkeypatch):
    rows = logs.make_rows(1000)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet", row_group_size=50)
    monkeypatch.setattr("data.convert.sources.UNIT_BYTES", 10_000)
    convert([str(tmp_path)], logs.schema(), str(tmp_path / "out"), Settings(processes=2))
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows, logs.schema())


def test_gzip_members_one_after_another_are_one_file(tmp_path):
    rows = logs.make_rows(60)
    text = Path(logs.write(str(tmp_path / "log.csv"), rows)).read_bytes()
    middle = text.index(b"\n", len(text) // 2)
    (tmp_path / "both.csv.gz").write_bytes(gzip.compress(text[:middle]) + gzip.compress(text[middle:]))
    convert([str(tmp_path / "both.csv.gz")], logs.schema(), str(tmp_path / "out"), ONE)
    assert logs.read(tmp_path / "out") == logs.expected_rows(rows, logs.schema())


@pytest.mark.parametrize("ending", ["tfrecord", "tfrecord.gz", "parquet", "orc"])
def test_a_source_that_is_no_text_although_the_samples_file_says_csv_is_told(tmp_path, ending):
    source = logs.write(str(tmp_path / f"log.{ending}"), logs.make_rows(20))
    with pytest.raises(DataError) as told:
        convert([source], logs.schema(source={"format": "csv"}), str(tmp_path / "out"), ONE)
    assert str(told.value) == f"{source}: expected csv, as the format says, found {ending.removesuffix('.gz')}"


@pytest.mark.parametrize("ending", logs.FORMATS)
def test_names_need_not_be_text(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    rows = logs.make_rows(100)
    os.rename(logs.write(f"log.{ending}", rows), os.fsdecode(b"\xff\nlog.") + ending)
    out = os.fsdecode(b"o\xfft")
    manifest = convert([f"*.{ending}"], logs.schema(), out, ONE)
    assert manifest["rows"] == 100
    assert infer([f"*.{ending}"]).schema.sort == ["user", "time"]
    assert to_tfrecord([out], os.fsdecode(b"back\xff"), ONE)["rows"] == 100
    os.rename(out, "out")
    assert logs.read("out") == logs.expected_rows(rows, logs.schema())


def test_a_finished_conversion_whose_file_is_gone_or_cut_is_told(tmp_path):
    source = logs.write(str(tmp_path / "log.csv"), logs.make_rows(400))
    out = str(tmp_path / "out")
    convert([source], logs.schema(), out, ONE)
    with open(f"{out}/part-00001.orc", "rb+") as file:
        file.truncate(100)
    with pytest.raises(DataError, match=r"part-00001.orc: expected the file of .* bytes .*, found one of 100 bytes; "):
        convert([source], logs.schema(), out, ONE)
    os.unlink(f"{out}/part-00001.orc")
    with pytest.raises(DataError, match=r"part-00001.orc: expected the file of .*, found no such file; --overwrite"):
        convert([source], logs.schema(), out, ONE)
    assert convert([source], logs.schema(), out, Settings(overwrite=True))["rows"] == 400


def test_half_files_do_not_stay_when_a_conversion_ends_early(tmp_path):
    """A writer of another process that was killed has removed nothing itself."""
    source = logs.write(str(tmp_path / "log.csv"), logs.make_rows(400))
    out = tmp_path / "out"

    def stop(step: str, done: int, total: int) -> None:
        if step == "writing":
            (out / "part-00007.orc.123.partial").write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert([source], logs.schema(), str(out), ONE, progress=stop)
    assert [name for name in os.listdir(out) if not name.endswith(".orc")] == []
    assert sorted(os.listdir(tmp_path)) == ["log.csv", "out", "out.work"]
    convert([source], logs.schema(), str(out), ONE)
    assert sorted(os.listdir(tmp_path)) == ["log.csv", "out"]
