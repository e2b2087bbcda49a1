"""Where a conversion writes: nothing that it did not make is ever removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from data.convert.convert import Settings, convert
from data.convert.schema import SamplesSchema
from data.convert.to_tfrecord import to_tfrecord
from data.convert.work import Work, locked
from data.errors import DataError

SCHEMA = SamplesSchema.model_validate({"columns": [{"name": "a", "kind": "id"}]}, strict=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    os.mkdir("logs")
    Path("logs", "part-00000.csv").write_text("a\n1\n2\n")  # as Spark names its files
    os.mkdir("mine")
    Path("mine", "thesis.txt").write_text("years of work")
    Path("file").write_text("x")
    return tmp_path


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("out", "work", "message"),
    [
        ("out", "mine", "mine: expected an empty folder to work in, found thesis.txt in it"),
        ("out", ".", "expected a folder without sources, found ./logs/part-00000.csv in it"),
        ("out", "logs", "logs: expected a folder without sources, found ./logs/part-00000.csv in it"),
        ("logs", None, "logs: expected a folder without sources, found ./logs/part-00000.csv in it"),
        ("link", None, "link: expected a folder without sources, found ./logs/part-00000.csv in it"),
        ("mine", None, "mine: expected"),
        ("out", "out", "out: expected a work folder outside of the output out, found it inside"),
        ("out", "out/work", "out/work: expected a work folder outside of the output out, found it inside"),
        ("file", None, "file: expected a folder to write, found that file is no folder"),
        ("file/out", None, "file/out: expected a folder to write, found that "),
        ("dangling", None, "dangling: expected a folder to write, found that dangling is no folder"),
        ("out", "file", "file: expected a folder to write, found that file is no folder"),
        ("", None, "'': expected a folder to write, found an empty name"),
        ("out", "", "'': expected a folder to write, found an empty name"),
        ("s3://bucket/out", None, "s3://bucket/out: expected a folder of this machine to write, found an address"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused_and_kept(
    folder: Path, out: str, work: str | None, message: str, overwrite: bool
) -> None:
    os.symlink("logs", "link")
    os.symlink("nowhere", "dangling")
    before = everything(folder)
    with pytest.raises(DataError) as error:
        convert(["logs"], SCHEMA, out, Settings(overwrite=overwrite, work=work))
    assert message in str(error.value)
    assert everything(folder) == before
    assert not os.path.lexists("out")


@pytest.mark.parametrize("strange", ["part-00000.csv", "part-notes.txt", "part-00000.orc.txt/x", ".hidden"])
def test_overwriting_stops_at_the_first_strange_name(folder: Path, strange: str) -> None:
    convert(["logs"], SCHEMA, "out")
    Path("out", strange).parent.mkdir(exist_ok=True)
    Path("out", strange).write_text("x")
    before = everything(folder)
    with pytest.raises(DataError, match=r"out: expected only a conversion's files to overwrite, found"):
        convert(["logs"], SCHEMA, "out", Settings(overwrite=True))
    assert everything(folder) == before


def test_its_own_output_is_no_source_of_a_conversion_that_overwrites_it(folder: Path) -> None:
    convert(["logs"], SCHEMA, "out")
    before = everything(folder)
    backs: list[Callable[[], object]] = [
        lambda: convert(["out/part-00000.orc"], SCHEMA, "out", Settings(overwrite=True)),
        lambda: to_tfrecord(["out"], "out", Settings(overwrite=True)),
    ]
    for back in backs:
        with pytest.raises(DataError, match=r"out: expected a folder without sources, found .*part-00000.orc in it"):
            back()
    assert everything(folder) == before


def test_a_work_folder_of_ones_own_is_used_and_goes_away(folder: Path) -> None:
    os.mkdir("fast")
    manifest = convert(["logs"], SCHEMA, "out", Settings(work="fast"))
    assert manifest["rows"] == 2
    assert sorted(os.listdir()) == ["file", "logs", "mine", "out"]


@pytest.mark.parametrize("left", ["plan.json", "plan.json.0badcafe.partial"])
def test_what_a_killed_conversion_left_before_it_had_begun_is_cleared_away(folder: Path, left: str) -> None:
    os.mkdir("out.work")
    Path("out.work", left).write_text('{"half": ')
    assert convert(["logs"], SCHEMA, "out")["rows"] == 2
    assert not os.path.exists("out.work")


def test_a_work_folder_serves_one_conversion_at_a_time(folder: Path) -> None:
    with locked("fast"), pytest.raises(DataError, match="fast: expected an output of its own, found another"):
        convert(["logs"], SCHEMA, "out", Settings(work="fast"))
    Work("other", "fast").begin({"another": "conversion"}, overwrite=False)
    before = everything(folder / "fast")
    with pytest.raises(DataError, match="found an unfinished conversion with other"):
        convert(["logs"], SCHEMA, "out", Settings(work="fast"))
    assert everything(folder / "fast") == before


def test_the_folder_that_one_stands_in_can_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("here")
    monkeypatch.chdir("here")
    assert convert(["../logs"], SCHEMA, ".")["rows"] == 2
    assert sorted(os.listdir()) == ["manifest.json", "part-00000.orc"]
    assert sorted(os.listdir("..")) == ["file", "here", "logs", "mine"]


def test_sources_are_files_and_what_exists_is_meant_literally(folder: Path) -> None:
    os.mkfifo("pipe.csv")
    for name, message in (("pipe.csv", "expected a file, found something else"), ("", "found an empty name")):
        with pytest.raises(DataError, match=message):
            convert([name], SCHEMA, "out")
    os.mkdir("a[1]")
    Path("a[1]", "x.csv").write_text("a\n5\n")
    for pattern in ("a[1]", "a[1]/x.csv", "a?1]/*.csv"):
        assert convert([pattern], SCHEMA, "out", Settings(overwrite=True))["rows"] == 1
    assert convert(["*.csv"], SCHEMA, "out", Settings(overwrite=True), base=str(folder / "a[1]"))["rows"] == 1
