"""`ps-cluster data`, and that the example jobs fit the samples it makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from pyarrow import orc

from data.paths import expand
from data.read.footers import check_files
from ps_cluster.job.load import load_job
from ps_cluster.job.resolve import columns_of
from tests.data.examples.test_movielens import make_events, write_source

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "ps_cluster", "examples")


def ps_cluster(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "ps_cluster", *arguments], capture_output=True, text=True, check=False)


def example(name: str, folder) -> list:
    """The columns a copy of the example in `folder` reads."""
    path = shutil.copy(os.path.join(EXAMPLES, f"{name}.yaml"), folder)
    return columns_of(load_job(path).job)


def test_movielens_files_fit_the_example_job(tmp_path):
    source = write_source(tmp_path / "source", make_events(1))
    done = ps_cluster("data", "movielens", str(tmp_path / "samples"), "--wheel", source, "--split", "time")
    assert (done.returncode, done.stderr) == (0, "")
    assert "180 rows" in done.stdout
    assert "20 rows" in done.stdout
    paths = [str(tmp_path / "samples" / f"{name}.orc") for name in ("train", "test")]
    assert check_files(paths, example("movielens", tmp_path)).rows == 200


def test_synth_files_fit_the_example_job(tmp_path):
    done = ps_cluster("data", "synth", str(tmp_path / "samples"), "--rows", "4000", "--cardinality", "item_id=9")
    assert (done.returncode, done.stderr) == (0, "")
    assert "best AUC 0.7" in done.stdout or "best AUC 0.8" in done.stdout
    paths = expand(["samples/t*.orc"], str(tmp_path))
    assert check_files(paths, example("synth", tmp_path)).rows == 4000
    assert max(orc.ORCFile(paths[-1]).read()["item_id"].to_pylist()) <= 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["synth", "OUT", "--rows", "5"], "rows: expected at least 320, found 5"),
        (
            ["synth", "OUT", "--rows", "4000", "--cardinality", "x"],
            "--cardinality: expected COLUMN=N, found 'x'",
        ),
        (["synth", "OUT", "--rows", "4000", "--cardinality", "hue=3"], "found hue"),
        (["movielens", "OUT", "--wheel", "none.whl"], "none.whl: expected a file, found none"),
        (["movielens", "OUT", "--test-share", "1"], "--test-share: expected a number above 0 and below 1"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    out = str(tmp_path / "out")
    done = ps_cluster("data", *[out if argument == "OUT" else argument for argument in arguments])
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not os.path.exists(out)


def test_a_folder_that_cannot_be_made_is_a_failed_run(tmp_path):
    (tmp_path / "file").write_text("")
    done = ps_cluster("data", "synth", str(tmp_path / "file" / "out"), "--rows", "4000")
    assert done.returncode == 1
    assert "Not a directory" in done.stderr
    assert done.stderr.count("\n") == 1
