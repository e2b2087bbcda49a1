"""The conversion on a real Spark, in local mode: the rows and counts of the conversion on one machine."""

from __future__ import annotations

import json
import shutil

import pytest

from data.convert.convert import Settings, convert
from data.convert.spark import convert_on_spark
from data.errors import DataError
from tests.data.convert import logs
from tests.data.convert.preimages import text_with_hash

pytestmark = pytest.mark.slow
pytest.importorskip("pyspark")
if shutil.which("java") is None:
    pytest.skip("needs Java", allow_module_level=True)


@pytest.fixture
def sources(tmp_path):
    rows = logs.make_rows(1500)
    for number, ending in enumerate(("csv", "parquet", "tfrecord")):
        logs.write(str(tmp_path / f"{number}.{ending}"), rows[500 * number : 500 * number + 500])
    with open(tmp_path / "0.csv", "ab") as file:
        file.write(b"1,1,yes,a,1,b,1\n2,3\n")
        for seed in (1, 2):  # texts that share their hash; bytes that a CSV file can hold
            text = next(
                found for n in range(10**6) if not {*b'",\r\n\\'} & {*(found := text_with_hash(77, seed * 10**7 + n))}
            )
            file.write(b"3,1600000000,1," + text + b",1,b,1\n")
    return [str(tmp_path / "[012].*")]


@pytest.mark.parametrize("layout", [{}, {"sort": [], "group_by": "city"}, {"sort": []}])
def test_spark_gives_the_rows_and_counts_of_one_machine(tmp_path, sources, layout):
    schema = logs.schema(**layout)
    here = convert(sources, schema, str(tmp_path / "here"), Settings(on_bad="skip"))
    there = convert_on_spark(sources, schema, str(tmp_path / "there"), Settings(on_bad="skip"), "local[2]")
    assert json.loads((tmp_path / "there" / "manifest.json").read_text()) == there
    assert logs.read(tmp_path / "there") == logs.read(tmp_path / "here")
    assert there["counts"] == here["counts"]
    assert there["counts"]["hashed"]["city"]["collisions"] == 1
    assert sum(there["counts"]["bad_rows"].values()) == 2
    assert len(there["files"]) > 3
    assert sum(file["rows"] for file in there["files"]) == 1502


def test_a_bad_row_ends_it_with_the_same_words(tmp_path, sources):
    errors = []
    for run in (
        lambda: convert(sources, logs.schema(), str(tmp_path / "here")),
        lambda: convert_on_spark(sources, logs.schema(), str(tmp_path / "there"), Settings(), "local[2]"),
    ):
        with pytest.raises(DataError) as error:
            run()
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert "0.csv: row 501 (line 502): column label: expected 0 or 1, found 'yes'" in errors[0]
    assert not (tmp_path / "there" / "manifest.json").exists()


def test_damage_that_only_an_executor_finds_is_told_in_one_line(tmp_path, sources):
    path = tmp_path / "1.parquet"
    data = bytearray(path.read_bytes())
    data[100:3000] = bytes(2900)  # found only by an executor
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        convert_on_spark([str(path)], logs.schema(), str(tmp_path / "there"), Settings(), "local[2]")
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
