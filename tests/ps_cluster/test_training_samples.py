"""What a job says of its samples, in whole runs: conditions, bad data, batches that are not full."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.data import orc_files
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two workers, a condition, and a stripe and a file that are left out."""
    folder = tmp_path_factory.mktemp("damaged samples")
    small_cluster.write_samples(folder)
    shutil.copy(folder / "train.orc", folder / "train.orc.whole")
    orc_files.damage_column(str(folder / "train.orc"), 1, "item")
    (folder / "empty.orc").write_bytes(b"")
    changes = {
        "data__train": ["train.orc", "empty.orc"],
        "data__where": "user < 25 and item != 3",
        "data__on_bad": "skip",
        "data__decode_threads": 2,
        "cluster__workers": 2,
        "cluster__ps": 1,
    }
    run = small_cluster.train(folder, job(**changes), "--report", str(folder / "report.json"))
    assert run.status == 0, run.err + run.logs()
    return run


def kept(path: Path, without: range = range(0)) -> list[tuple]:
    rows = [row for number, row in enumerate(orc_files.read(str(path))) if number not in without]
    return [row for row in rows if row[0] < 25 and row[1] != 3]


def test_only_rows_of_the_condition_are_trained_and_tested_on(damaged: Run) -> None:
    train = kept(damaged.folder / "train.orc.whole", range(90, 140))
    assert damaged.events("step")[-1]["rows"] == 2 * len(train)
    assert damaged.events("evaluation")[0]["rows"] == len(kept(damaged.folder / "test.orc"))


def test_what_is_left_out_is_told_at_the_start_and_counted_at_the_end(damaged: Run) -> None:
    (start,) = damaged.events("start")
    assert start["where"] == "user < 25 and item != 3"
    # Every stripe holds such users.
    pruned = {"files": 1, "stripes": 4, "row_groups": 4, "rows": 320}
    assert start["pruned"] == {**pruned, **{f"{name}_left": count for name, count in pruned.items()}}
    assert "4 of 4 stripes, 4 of 4 row groups, 320 of 320 rows may match" in damaged.out
    assert json.loads((damaged.folder / "report.json").read_text())["pruned"] == start["pruned"]
    assert start["files_lost"] == [f"{damaged.folder}/empty.orc: expected an ORC file, found an empty file (0 bytes)"]
    train, test = damaged.events("reading")
    rows = kept(damaged.folder / "train.orc.whole", range(90, 140))
    nulls = {"shop": 2, "tags": 3, "age": 6}
    assert train == {
        **train,
        "side": "train",
        "rows_lost": 2 * 50,
        "files_lost": 1,
        "nulls_filled": {name: 2 * sum(row[i] is None for row in rows) for name, i in nulls.items()},
    }
    assert (test["side"], test["rows_lost"], test["files_lost"]) == ("test", 0, 0)
    assert json.loads((damaged.folder / "report.json").read_text())["reading"]["train"]["rows_lost"] == 100
    assert "empty.orc: expected an ORC file" in damaged.out
    assert "100 rows · 1 file of the train data" in damaged.out


@pytest.mark.slow
def test_batches_that_are_not_full_can_be_left_out(tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    run = small_cluster.train(tmp_path, job(data__drop_remainder=True, training__batch_size=50, cluster__ps=0))
    assert run.status == 0, run.err + run.logs()
    steps = run.events("step")
    assert [step["rows"] for step in steps] == [50 * (i + 1) for i in range(12)]
    assert run.events("start")[0]["steps_total"] == 12
    assert run.events("evaluation")[0]["rows"] == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"data__where": "user < -5"},
            "data.where: expected a condition to keep training rows, found none of 320 kept",
        ),
        (
            {"data__drop_remainder": True, "training__batch_size": 1000},
            "data.drop_remainder: expected a full batch of training rows, found 320 rows",
        ),
        ({"data__where": "usr < 5"}, "train.orc: column usr: expected an integer, boolean, float or double"),
    ],
)
def test_a_job_that_leaves_no_row_ends_with_one_line(tmp_path: Path, changes: dict, expected: str) -> None:
    small_cluster.write_samples(tmp_path)
    run = small_cluster.train(tmp_path, job(cluster__ps=0, **changes))
    assert run.status != 0
    assert expected in run.err
    assert "Traceback" not in run.out + run.err
