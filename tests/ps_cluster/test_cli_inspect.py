"""`ps-cluster data inspect` as users run it."""

from __future__ import annotations

import json

import pytest

from tests.data import orc_files
from tests.data.s3_server import S3
from tests.ps_cluster.in_process import Ran, ran


def inspect(folder, *arguments: str) -> Ran:
    return ran(["data", "inspect", *arguments], folder)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set").mkdir()
    for number in range(2):
        orc_files.numbered(tmp_path / "set" / f"{number}.orc", [50, 30], start=number * 80)
    return tmp_path


def test_a_folder_is_described_and_its_page_written(folder):
    done = inspect(folder, "set", "--html", "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows       160 in 2 files and 4 stripes" in done.stdout
    assert "sorted by  id, across all files" in done.stdout
    assert "set/1.orc" in done.stdout
    assert (folder / "page.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in folder.iterdir()) == ["page.html", "set"]


def test_json_is_all_that_is_printed(folder):
    done = inspect(folder, "set/*.orc", "--json", "--fast")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == 160


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "none: expected a file or folder, found nothing by that name"),
        (["set", "--time", "score"], "--time: expected a column of times"),
        (["set", "--html", "no/page.html"], "--html: expected a file in a folder that exists, found 'no/page.html'"),
    ],
)
def test_wrong_input_is_one_line(folder, arguments, message):
    done = inspect(folder, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_set_on_s3_is_described(folder, s3: S3):
    for number in range(2):
        s3.put(f"set/{number}.orc", (folder / "set" / f"{number}.orc").read_bytes())
    done = inspect(folder, f"{s3.url}/set")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows       160 in 2 files and 4 stripes" in done.stdout
    assert f"{s3.url}/set/1.orc" in done.stdout
