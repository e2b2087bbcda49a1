"""`ps-cluster data popularity` and `ps-cluster data sample`."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from data.format.tail import read_tail, stripe_streams
from data.read.footers import read_footer
from data.read.part_reader import PartReader
from data.read.read_spec import ReadSpec
from data.read.stripes import whole
from data.where import parse
from ps_cluster.cli.main import main
from ps_cluster.job.load import load_job
from ps_cluster.job.resolve import training_columns_of
from ps_cluster.job.sampling import Resolved, sampling_of
from tests.data import orc_files

DAY = 86_400_000
JOB: dict[str, Any] = {
    "name": "sampled",
    "data": {
        "train": ["train-*.orc"],
        "label": "click",
        "sampling": {
            "time": {"column": "time"},
            "rules": [
                {"label": 0, "keep": 0.25},
                {"label": 0, "newest_hours": 24, "weight": 2},
                {"bands": {"column": "item", "popularity": "items.orc", "top_ids": [1, 3], "keep": [0.5, 0.75, 1]}},
            ],
            "replay": {"newest_days": 2, "newest_share": 0.6, "half_life_days": 2},
        },
    },
    "features": [{"name": "item", "kind": "id", "dim": 4}],
    "model": {"name": "deepfm", "hidden": [8]},
    "optimizers": {"sparse": {"name": "sgd", "learning_rate": 0.1}, "dense": {"name": "sgd", "learning_rate": 0.1}},
    "training": {"batch_size": 8, "seed": 3},
    "output": "out",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    random = np.random.default_rng(2)
    for name in ("train-0", "train-1"):
        columns = (
            random.random(5000) < 0.2,
            random.choice(6, 5000, p=[0.4, 0.25, 0.2, 0.1, 0.04, 0.01]),
            random.integers(8 * DAY, size=5000),
        )
        rows = list(zip(columns[0].astype(int).tolist(), columns[1].tolist(), columns[2].tolist()))
        orc_files.write(
            tmp_path / f"{name}.orc", "struct<click:int,item:bigint,time:bigint>", [rows[:3000], rows[3000:]]
        )
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "popularity", "train-*.orc", "--column", "item", "--out", "items.orc"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "items.orc: 6 ids of item, 10,000 occurrences, 0 nulls"
    assert told[1].startswith("  the most frequent: 4") and told[1].endswith("% of all occurrences")


def test_a_dry_run_counts_what_is_then_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted(capsys)
    before = sorted(os.listdir(folder))
    assert main(["data", "sample", "job.yaml", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sorted(os.listdir(folder)) == before
    assert main(["data", "sample", "job.yaml", "--out", "sampled", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told
    rows = [row for name in ("train-0", "train-1") for row in orc_files.read(str(folder / "sampled" / f"{name}.orc"))]
    assert told["all"]["kept"] == len(rows)
    assert told["all"]["read"] == 10_000
    assert told["labels"][1]["kept"] == sum(row[0] for row in rows)
    assert told["all"]["weight"] == sum(row[3] for row in rows)
    newest = told["newest_time"]
    recent = sum(newest - row[2] < 2 * DAY for row in rows)
    assert told["replay"]["newest_share"] == recent / len(rows)
    assert told["replay"]["expected"] == pytest.approx(0.6)
    assert recent / len(rows) == pytest.approx(0.6, abs=0.05)
    by_day = [sum((newest - row[2]) // DAY == day for row in rows) for day in range(8)]
    assert [day["kept"] for day in told["replay"]["days"]] == by_day
    bands = [sum(row[1] == 0 for row in rows), sum(row[1] in (1, 2) for row in rows)]
    bands.append(len(rows) - sum(bands))
    assert [group["kept"] for group in told["rules"][2]["groups"]] == bands
    # A weight of 2 of new negatives: the negatives count more, the positives less.
    for click, _, time, weight, offset in rows:
        assert weight == (2 if not click and newest - time < DAY else 1)
        assert offset == pytest.approx(np.log(0.25 * (2 if newest - time < DAY else 1)), abs=1e-6)


def test_rows_that_where_leaves_out_count_for_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted(capsys)
    limit = 6 * DAY
    data = {**JOB["data"], "where": f"item < 4 and time < {limit}"}
    (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "data": data}))
    assert main(["data", "sample", "job.yaml", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = [row for name in ("train-0", "train-1") for row in orc_files.read(str(folder / f"{name}.orc"))]
    taken = [row for row in rows if row[1] < 4 and row[2] < limit]
    assert told["all"]["read"] == len(taken)
    assert told["left_out_by_where"] == len(rows) - len(taken)
    assert told["newest_time"] == max(row[2] for row in taken)
    assert told["replay"]["expected"] == pytest.approx(0.6)


def test_the_table_names_rules_bands_and_days(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted(capsys)
    assert main(["data", "sample", "job.yaml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["rate", "read", "kept", "share", "weight"]
    names = [line[:45].strip() for line in lines]
    for name in ("all rows", "label 0", "label 0: keep 0.25", "label 0, newest 24 h: weight 2", "the 1 most frequent"):
        assert any(one.startswith(name) for one in names), name
    assert any(line.split()[:3] == ["day", "7", line.split()[2]] for line in lines)
    assert lines[-1].startswith("newest 2 days: ") and lines[-1].endswith("% of the rows kept, 60.00% asked for")


def test_mistakes_are_told_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "plain.yaml").write_text(yaml.safe_dump({**JOB, "data": {"train": ["train-0.orc"], "label": "click"}}))
    for arguments, message in (
        (["sample", "plain.yaml", "--dry-run"], "plain.yaml: data: expected 'sampling', found no such field"),
        (["sample", "job.yaml", "--dry-run"], "items.orc: expected an ORC file, found no file by that name"),
        (
            ["popularity", "none-*.orc", "--column", "item", "--out", "x.orc"],
            "none-*.orc: expected a pattern that names",
        ),
        (
            ["popularity", "train-0.orc", "--column", "itm", "--out", "x.orc"],
            "column itm: expected integers or arrays of",
        ),
        (
            ["popularity", "train-0.orc", "--column", "item", "--out", "train-0.orc"],
            "--out: expected a file other than",
        ),
        (["popularity", "train-0.orc", "--column", "item", "--out", "."], "--out: expected a file, found the folder ."),
    ):
        assert main(["data", *arguments]) == 2
        told = capsys.readouterr()
        assert message in told.err and len(told.err.splitlines()) == 1
        assert told.out == ""


def test_what_training_leaves_out_with_on_bad_is_left_out_here(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is none, one of other columns, a damaged stripe, wrong values: the rows are those of a reader."""
    kind = "struct<click:int,item:bigint,time:bigint,price:float>"
    rows = [(i % 2, i % 5, i, 1.0) for i in range(400)]
    bad = {7: (None, 1, 7, 1.0), 8: (1, None, 8, 1.0), 9: (0, 1, 9, float("nan")), 250: (1, 2, 250, None)}
    rows = [bad.get(i, row) for i, row in enumerate(rows)]
    path = orc_files.write(folder / "train-2.orc", kind, [rows[:200], rows[200:300], rows[300:]])
    with pa.OSFile(path) as file:
        stream = next(s for s in stripe_streams(file, read_tail(file, path), 2) if s.column == 4 and s.kind == "DATA")
    with open(path, "r+b") as file:
        file.seek(stream.offset)
        file.write(b"\xff" * stream.bytes)
    (folder / "train-3.orc").write_text("no ORC file at all")
    orc_files.write(folder / "train-4.orc", "struct<click:int,time:bigint,price:float>", [[(1, 1, 1.0)]])
    data = {"train": ["train-[2-4].orc"], "label": "click", "on_bad": "skip", "where": "time != 11"}
    data["sampling"] = {"rules": [{"label": 0, "keep": 0.5}]}
    features = [{"name": "item", "kind": "id", "dim": 4}, {"name": "price", "kind": "dense"}]
    (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "data": data, "features": features}))
    assert main(["data", "sample", "job.yaml", "--dry-run", "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert [line.split(": ")[1] for line in captured.err.splitlines()] == [
        f"{folder}/train-3.orc",
        f"{folder}/train-4.orc",
    ]
    assert main(["data", "sample", "job.yaml", "--out", "sampled"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "left out by on_bad, as damaged or wrong: 104 rows" in lines and "left out by where: 1 row" in lines
    job_file = load_job("job.yaml")
    spec = ReadSpec((path,), tuple(training_columns_of(job_file.job)), 64, where=parse("time != 11"), on_bad="skip")
    sampled = sampling_of(job_file, [path])
    assert isinstance(sampled, Resolved)
    spec = replace(spec, sampling=sampled.sampling)
    reader = PartReader(spec)
    parts = [found for part in whole(read_footer(path).stripes) for found in reader.read([part])]
    assert told["lost"] == sum(len(found.lost) for found in parts if found.lost is not None) == 104
    assert told["left_out_by_where"] == 1
    assert told["all"]["kept"] == sum(found.rows.num_rows for found in parts)
    written = orc_files.read("sampled/train-2.orc")
    read = [row for found in parts for row in found.rows.to_pylist()]
    assert [(row[0], row[1], row[3]) for row in written] == [(row["click"], row["item"], row["price"]) for row in read]
    data["on_bad"] = "error"
    (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "data": data, "features": features}))
    assert main(["data", "sample", "job.yaml", "--dry-run"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_rows_without_a_label_of_0_or_1_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orc_files.write(folder / "train-0.orc", "struct<click:int,item:bigint>", [[(1, 1), (0, 1), (None, 1), (2, 1)]])
    data = {"train": ["train-0.orc"], "label": "click", "sampling": {"rules": [{"label": 0, "weight": 2}]}}
    (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "data": data}))
    assert main(["data", "sample", "job.yaml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4].split() == ["another", "label", "or", "none", "2", "2", "100.0%", "1.000"]


def test_a_where_that_the_files_cannot_answer_is_told_as_training_tells_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted(capsys)
    for where, message in (("itm == 1", "did you mean item?"), ("click.x > 1", "data.where: expected a column or")):
        (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "data": {**JOB["data"], "where": where}}))
        assert main(["data", "sample", "job.yaml", "--dry-run"]) == 2
        assert message in capsys.readouterr().err
