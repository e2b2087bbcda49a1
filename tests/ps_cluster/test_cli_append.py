"""`ps-cluster data append` as a user runs it: JSON lines in, ORC files out."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from pyarrow import orc

from tests.ps_cluster.in_process import Ran, ran

COLUMNS = ["--column", "id:int64", "--column", "x:float32", "--column", "items:int64_list"]


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "ps_cluster", "data", "append", *map(str, args)]


def run(lines: str, *args: object) -> Ran:
    return ran(["data", "append", *map(str, args)], stdin=lines)


def lines_of(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def rows_in(folder) -> list[dict]:
    return [row for path in sorted(glob.glob(f"{folder}/*.orc")) for row in orc.ORCFile(path).read().to_pylist()]


def test_lines_become_rows_and_a_second_run_needs_no_columns(tmp_path):
    rows = [{"id": i, "x": i / 2, "items": [i] * (i % 3)} for i in range(2500)]
    done = run(lines_of(rows), tmp_path / "out", *COLUMNS, "--roll-rows", 1000)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2,500 rows in 3 files\n")
    assert rows_in(tmp_path / "out") == rows
    more = [{"x": None, "id": 7, "items": None}, {"id": 8, "x": None, "items": []}]
    done = run(lines_of(more)[:-1].replace('"x": null, ', "", 1) + "\n\n", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert rows_in(tmp_path / "out") == rows + more
    like = glob.glob(f"{tmp_path}/out/*.orc")[0]
    done = run(lines_of(more), tmp_path / "other", "--like", like)
    assert done.returncode == 0, done.stderr
    assert rows_in(tmp_path / "other") == more


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "a"}', "line 3: field id: expected an integer of 64 bits, found 'a'"),
        ('{"id": 1, "y": 2}', "line 3: field y: expected one of id, x, items; found a field that is none"),
        ('{"x": NaN}', "line 3: expected a JSON object, found '{\"x\": NaN}' (NaN is no JSON number)"),
        ('{"x": 1e400}', "line 3: field x: expected a finite float32 number, found inf"),
        ("[1]", "line 3: expected an object with the fields id, x, items; found [1]"),
        ('{"id": 1', "line 3: expected a JSON object, found '{\"id\": 1' (Expecting ',' delimiter: line 1 column 9"),
        ('{"id": 1, "id": 2}', "(field id is there twice)"),
        ("[" * 100_000, "line 3: expected a JSON object"),
    ],
)
def test_a_bad_line_is_named_and_all_before_it_is_kept(tmp_path, line, says):
    good = [{"id": 1, "x": 0.5, "items": [1]}, {"id": 2, "x": 1.5, "items": []}]
    text = lines_of(good) + line + "\n" + lines_of(good)
    done = run(text, tmp_path / "a", *COLUMNS)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert rows_in(tmp_path / "a") == good
    done = run(text, tmp_path / "b", *COLUMNS, "--on-bad", "skip")
    assert done.returncode == 0, done.stderr
    assert "4 rows in 1 file, 1 bad line left out (the first: line 3: " in done.stdout
    assert rows_in(tmp_path / "b") == good + good


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "--column: expected the columns to write, because"),
        (["--column", "a"], "--column: expected NAME:TYPE with one of the types int64,"),
        (["--column", "a:text"], "--column: expected NAME:TYPE with one of the types int64,"),
        (["--column", "a:int64", "--column", "a:int64"], "schema: expected names that differ, found a"),
        (["--like", "nowhere.orc"], "nowhere.orc: expected an ORC file, found no file by that name"),
        (["--like", "setup.py"], "setup.py: expected an ORC file, found one that starts with"),
        ([*COLUMNS, "--like", "x"], "--column: expected either --like or --column"),
        ([*COLUMNS, "--flush-seconds", "0"], "--flush-seconds: expected a number above 0, found 0.0"),
        ([*COLUMNS, "--roll-rows", "0"], "--roll-rows: expected a number above 0, found 0"),
    ],
)
def test_wrong_options_are_one_line_and_leave_nothing(tmp_path, args, says):
    done = run("", tmp_path / "out", *args)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_other_columns_than_those_in_the_folder_are_refused(tmp_path):
    assert run(lines_of([{"id": 1}]), tmp_path, *COLUMNS).returncode == 0
    done = run(lines_of([{"id": 1}]), tmp_path, "--column", "id:double")
    assert done.returncode == 2
    assert f"{tmp_path}: expected ORC files with the columns to write, found others in" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_closes_the_file(tmp_path, number, code):
    process = subprocess.Popen(
        command(tmp_path, *COLUMNS, "--flush-rows", 1),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _feed(process, tmp_path, 50)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    assert out.startswith("50 rows in 1 file")
    assert [row["id"] for row in rows_in(tmp_path)] == list(range(50))


def test_what_was_flushed_in_a_killed_run_is_finished_by_the_next(tmp_path):
    process = subprocess.Popen(command(tmp_path, *COLUMNS, "--flush-seconds", 0.1), stdin=subprocess.PIPE, text=True)
    _feed(process, tmp_path, 50)
    process.kill()
    process.communicate()
    assert rows_in(tmp_path) == []
    done = run("", tmp_path, *COLUMNS)
    assert done.returncode == 0
    assert "of a run that did not end: 50 rows" in done.stderr
    assert [row["id"] for row in rows_in(tmp_path)] == list(range(50))
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".orc")] == []


def _feed(process: subprocess.Popen, folder, rows: int) -> None:
    """Writes rows, and waits until all are flushed."""
    from data.append.segments import flushed

    process.stdin.write(lines_of({"id": i} for i in range(rows)))
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.05)
        for segment in glob.glob(f"{folder}/.append/*.segment"):
            length = flushed(segment).bytes
            with open(segment, "rb") as file:
                head = file.read(length)
            if length:
                import pyarrow as pa

                if orc.ORCFile(pa.BufferReader(head)).nrows == rows:
                    return
    raise AssertionError("the rows were not flushed")
