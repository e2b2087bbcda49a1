"""`ps-cluster data diff` as users run it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pyarrow import orc

from data.orc_writer import OrcWriter
from tests.data import orc_files
from tests.ps_cluster.in_process import Ran, ran

SCHEMA = "struct<user:bigint,score:float,items:array<bigint>>"


def diff(folder, *arguments: str) -> Ran:
    return ran(["data", "diff", *arguments], folder)


@pytest.fixture
def folder(tmp_path):
    rows = [(i, i / 2, [i]) for i in range(10)]
    orc_files.write(tmp_path / "a.orc", SCHEMA, [rows[:6], rows[6:]])
    orc_files.write(tmp_path / "same.orc", SCHEMA, [rows])
    changed = [(i, score + (i == 3), [*items, 7] if i in (3, 4) else items) for i, score, items in rows if i != 8]
    orc_files.write(tmp_path / "b.orc", SCHEMA, [[*changed, (11, None, None)]])
    return tmp_path


def test_equal_sets_end_with_0(folder):
    done = diff(folder, "a.orc", "same.orc", "--key", "user")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "A: 10 rows, B: 10 rows, compared by user",
        "equal 10, changed 0, only in A 0, only in B 0",
        "equal",
    ]
    assert diff(folder, "a.orc", "same.orc").returncode == 0


def test_differences_are_shown_and_end_with_1(folder):
    done = diff(folder, "a.orc", "b.orc", "--key", "user")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "A: 10 rows, B: 10 rows, compared by user",
        "equal 7, changed 2, only in A 1, only in B 1",
        "column score: differs in 1 row",
        "  user=3: 1.5 in A, 2.5 in B (a.orc row 3; b.orc row 3)",
        "column items: differs in 2 rows",
        "  user=3: [3] in A, [3, 7] in B (a.orc row 3; b.orc row 3)",
        "  user=4: [4] in A, [4, 7] in B (a.orc row 4; b.orc row 4)",
        "only in A: user=8 (a.orc row 8)",
        "only in B: user=11 (b.orc row 9)",
        "different",
    ]


def test_without_key_rows_are_compared_whole(folder):
    done = diff(folder, "a.orc", "b.orc", "--examples", "1")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "A: 10 rows, B: 10 rows, compared as whole rows in any order",
        "equal 7, only in A 3, only in B 3",
        "only in A: user=3, score=1.5, items=[3] (a.orc row 3)",
        "only in B: user=3, score=2.5, items=[3, 7] (b.orc row 3)",
        "different",
    ]


def test_json_tells_the_same(folder):
    done = diff(folder, "a.orc", "b.orc", "--key", "user", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["equal"], found["changed"]) == (1, False, 2)
    assert found["changes"]["score"][0]["place_b"] == {"path": "b.orc", "row": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.orc", "none.orc"], "none.orc: expected a file or folder, found nothing by that name"),
        (["a.orc", "b.orc", "--key", "usr"], "--key: column usr: expected in both sets, found none in A and B"),
        (["a.orc", "b.orc", "--key", "user,"], "--key: expected names of columns with commas between, found 'user,'"),
        (["a.orc", "b.orc", "--examples", "-1"], "--examples: expected at least 0, found -1"),
        (["a.orc"], "arguments are required: B"),
    ],
)
def test_wrong_input_ends_with_2_and_one_line(folder, arguments, message):
    done = diff(folder, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_file_ends_with_2_and_one_line(folder):
    for name in ("whole.orc", "damaged.orc"):
        with OrcWriter(str(folder / name), orc.ORCFile(folder / "same.orc").schema) as writer:
            writer.write(orc.ORCFile(folder / "same.orc").read())
    orc_files.damage_column(str(folder / "damaged.orc"), 0, "score")
    # A process of its own: what is said when the interpreter ends, with the whole side half read, counts too.
    command = [sys.executable, "-m", "ps_cluster", "data", "diff", "whole.orc", "damaged.orc", "--key", "user"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("damaged.orc: stripe 0: column score: expected CRC ")
    assert done.stderr.count("\n") == 1
