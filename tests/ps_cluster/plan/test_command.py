"""`ps-cluster plan` on a real log, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ps_cluster.cli.main import main
from ps_cluster.plan.constants import store
from ps_cluster.quiet import import_tensorflow
from tests.ps_cluster import small_cluster

import_tensorflow(gpu=False)  # what it prints is not the command's


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small_cluster.write_samples(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(small_cluster.job()))
    return path


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["plan", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_plan_counts_the_ids_of_a_log_and_gives_every_formula(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = asked(capsys, str(job), "--json", "--html", str(job.parent / "plan.html"))
    assert status == 0
    plan = json.loads(out)
    rows = [row for stripe in (1,) for row in small_cluster.rows(320, stripe)]
    users, items = {row[0] for row in rows}, {row[1] for row in rows} | {one for row in rows for one in row[4]}
    assert plan["tables"]["user"]["rows"]["value"] == pytest.approx(len(users), abs=0.5)
    assert plan["tables"]["items"]["rows"]["value"] == pytest.approx(len(items), abs=0.5)
    assert plan["horizon"]["rows"] == 320
    assert plan["time"]["steps"]["value"] == 10
    for section in ("server", "worker", "network", "checkpoint", "time"):
        for name, one in plan[section].items():
            assert {"value", "unit", "formula", "inputs"} <= set(one), name
    assert "stated defaults" in plan["constants"]["source"]
    page = (job.parent / "plan.html").read_text()
    assert "Plan of job clicks" in page and "slab_bytes(" in page


def test_a_plan_in_words_names_the_bottleneck_and_what_would_change_it(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = asked(capsys, str(job), "--ids", "user=1e8")
    assert status == 0
    assert "will be the bottleneck" in out
    assert "embedding_bytes: 1.6 GB" in out  # 1e8 ids of 4 float32
    assert "twice the widths" in out and "values of 16 bits" in out


def test_a_finished_run_is_compared_and_planned_from(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = {
        "versions": {}, "ps": 2, "workers": 1, "steps": 20, "rows": 640, "epochs": 2,
        "dense_parameters": 500, "flops_per_row": 3000.0,
        "tables": [
            {"name": name, "rows": rows, "bytes": rows * 64, "tiers": [], "statistics": None}
            for name, rows in (("user", 44), ("items", 25), ("shop", 5), ("tags", 8))
        ],
    }  # fmt: skip
    path = job.parent / "report.json"
    path.write_text(json.dumps(report))
    status, out, _ = asked(capsys, str(job), "--check", str(path))
    assert status == 0
    assert "user: rows: predicted 40 rows, measured 44 rows, error -9.1%" in out
    assert "steps: predicted 20 steps, measured 20 steps, error +0.0%" in out
    status, out, _ = asked(capsys, str(job), "--from-report", str(path), "--json", "--ps", "3")
    plan = json.loads(out)
    assert (status, plan["ps"], plan["tables"]["user"]["rows"]["value"]) == (0, 3, 44)


def test_constants_of_a_machine_are_used(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(job.parent / "constants.json")
    store(path, {"checkpoint_bytes_per_second": 1.0}, {"cpu": "slow", "cores": 1, "measured": "today"})
    _, out, _ = asked(capsys, str(job), "--constants", path, "--json", "--ps", "1")
    plan = json.loads(out)
    tables = plan["checkpoint"]["bytes"]["value"] - plan["checkpoint"]["dense_bytes"]["value"]
    assert plan["checkpoint"]["seconds"]["value"] == pytest.approx(tables)
    assert "slow" in plan["constants"]["source"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--samples", "absent.orc"], "absent.orc"),
        (["--ids", "users=5"], "expected names of tables (items, tags, user, shop), found 'users'"),
        (["--ids", "user"], "--ids: expected TABLE=NUMBER"),
        (["--days", "7"], "expected planning.rows_per_day, or samples and data.time"),
        (["--html", "absent/plan.html"], "--html: expected a file in a folder that exists"),
        (["--check", "absent.json"], "absent.json: expected a report of a run, found: No such file or directory"),
        (["--constants", "absent.json"], "absent.json: expected constants"),
        (["--check", "train.orc"], "train.orc: expected a report of a run, found no JSON: "),
        (
            ["--from-report", "text.json"],
            "text.json: tables[0].rows: expected an integer of at least 0, found 'many'",
        ),
        (
            ["--from-report", "less.json"],
            "less.json: tables[0].rows: expected an integer of at least 0, found -1",
        ),
        (["--check", "twice.json"], "twice.json: tables[1].name: expected a name no other table has, found 'user', as"),
        (["--from-report", "none.json"], "none.json: steps: expected those of a run that trained, found 0"),
        (["--from-report", "other.json"], "found those of a run of job news (goods)"),
        (["--check", "other.json"], "other.json: tables: expected those of "),
        (["--from-report", "other.json", "--days", "7"], "--from-report: expected no --days"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(job.parent)
    table = {"name": "user", "rows": "many", "bytes": 1}
    Path("text.json").write_text(json.dumps({"versions": {}, "tables": [table]}))
    less = {"versions": {}, "tables": [{"name": "user", "rows": -1, "bytes": 1}]}
    Path("less.json").write_text(json.dumps(less))
    table = {**table, "rows": 5}
    Path("twice.json").write_text(json.dumps({"versions": {}, "tables": [table, table]}))
    Path("none.json").write_text(json.dumps({"versions": {}, "tables": [table], "steps": 0}))
    other = {"versions": {}, "job": "news", "tables": [{"name": "goods", "rows": 5, "bytes": 320}]}
    Path("other.json").write_text(json.dumps(other))
    status, out, err = asked(capsys, str(job), *arguments)
    assert (status, out) == (2, "")
    assert words in err and err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--days", "7"], ["--ids", "users=5"]])
def test_a_wish_that_no_samples_can_meet_is_refused_before_they_are_read(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (job.parent / "train.orc").write_bytes(b"no samples at all")
    status, _, err = asked(capsys, str(job), *arguments)
    assert status == 2 and "train.orc" not in err


def test_without_samples_the_table_that_nothing_is_known_of_is_named(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.parent / "train.orc").unlink()
    status, _, err = asked(capsys, str(job))
    assert status == 2
    assert "table items: expected samples" in err and "planning.ids.items" in err
