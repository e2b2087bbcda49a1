"""The JSON report of a run."""

from __future__ import annotations

import json
import os
import stat
import subprocess

import pytest

from ps_cluster.errors import RunError
from ps_cluster.report import Report, events, report_of, versions, write_report
from ps_cluster.report.status import Status
from ps_cluster.report.summary import result
from ps_cluster.report.tiers import in_words
from tests.ps_cluster.run_events import STEP_TIME, USED, run_events

TABLE_STATISTICS = {
    "memory_bytes": 131_072,
    "counted_ids": 3,
    "looked_up": 400,
    "hit_share": 0.75,
    "inserted": 50,
    "admitted": 40,
    "refused": 700,
    "promoted": 100,
    "evicted": {"age": 7, "frequency": 0, "max_bytes": 1},
    "longest_pause_seconds": {"growth": 0.0025, "eviction": 0.001, "checkpoint": 0.0},
    "ps": [{"rows": 600, "memory_bytes": 70_000}, {"rows": 400, "memory_bytes": 61_072}],
    "hot_ids": [[5, 90], [-3, 12]],
}


def test_a_report_says_what_the_events_said(tmp_path):
    path = tmp_path / "made" / "report.json"
    write_report(str(path), report_of(run_events()))
    found = json.loads(path.read_text())
    assert found.pop("versions")["tensorflow"].startswith("2.")
    found.pop("git_revision")
    assert found == {
        "format_version": 1,
        "job": "clicks",
        "seed": 7,
        "sampling": {"seed": 7, "rules": [], "replay": None, "newest_time": None},
        "data": "train.orc, 1 file, 3.1 MB",
        "model": "deepfm, hidden 128, 64",
        "block": "deepfm: one large block",
        "ps": 3,
        "workers": 2,
        "batch_size": 500,
        "epochs": 1,
        "dense_parameters": 12345,
        "where": None,
        "pruned": None,
        "reading": {},
        "rows": 4000,
        "rows_retrained": 0,
        "restarts": 0,
        "steps": 4,
        "seconds": 75.0,
        "samples_per_second": 1990.0,
        "mfu": 0.123,
        "flops_per_row": 4e6,
        "peak_flops": 2e11,
        "experts": None,
        "timed_steps": 3,
        "step_time": [
            {part: 4 * seconds for part, seconds in {**STEP_TIME, "all_reduce": all_reduce}.items()}
            for all_reduce in (0.25, 0.75)
        ],
        "exchanged_bytes": 4096,
        "processes": [USED],
        "settings": {"cluster.ps": 3},
        "loss": 0.25,
        "train_auc": 0.54,
        "auc": 0.75,
        "log_loss": 0.4321,
        "calibration": 1.05,
        "test_rows": 500,
        "tables": [
            {"name": "user", "rows": 1000, "bytes": 64000, "tiers": [], "parameters_saved": 0, "statistics": None},
            {"name": "item", "rows": 20, "bytes": 1280, "tiers": [], "parameters_saved": 0, "statistics": None},
        ],
        "table_bytes": 65280,
        "saved_model": "/out put/saved_model",
        "saved_model_bytes": 70000,
        "saved": {"checkpoint": "/out put/checkpoint"},
    }
    assert os.listdir(path.parent) == ["report.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_last_use_of_experts_is_in_the_report():
    experts = {"active": 0.5, "target": 0.5, "penalty": 0.1, "layers": [[0.25, 0.5, 1.0]], "idle": 0, "experts": 8}
    told = list(run_events())
    next(event for event in reversed(told) if event["event"] == "step")["experts"] = experts
    assert report_of(told).model_dump(mode="json")["experts"] == experts


def test_figures_a_run_does_not_have_are_null_and_infinity_is_a_string(tmp_path):
    told = [events.evaluation(rows=1, auc=None, log_loss=float("inf"), calibration=None)]
    write_report(str(tmp_path / "report.json"), report_of(told))
    found = json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    assert (found["auc"], found["log_loss"], found["steps"], found["tables"]) == (None, "Infinity", None, [])


def test_what_tables_counted_is_in_the_report_and_in_the_summary(tmp_path):
    statistics = TABLE_STATISTICS
    tables = [
        {"name": "user", "rows": 1000, "bytes": 64_000, "statistics": statistics},
        {"name": "item", "rows": 20, "bytes": 1_280, "statistics": {**statistics, "looked_up": 0, "hit_share": None}},
        {"name": "plain", "rows": 2, "bytes": 128},
    ]
    told = [*run_events(), events.tables(tables=tables)]
    found = json.loads(report_of(told).model_dump_json())["tables"]
    assert [table["statistics"] for table in found] == [statistics, tables[1]["statistics"], None]
    status = Status()
    for event in told:
        status.update(event)
    lines = [text for _, text in result(status).rows]
    start = next(number for number, line in enumerate(lines) if line.startswith("3 tables")) + 4
    assert lines[start : start + 3] == [
        "262 kB of memory · 75.0% of look-ups found a row · longest pause 2.5 ms",
        "80 ids admitted · 1,400 updates refused",
        "evicted 14 by age · 2 by max_bytes",
    ]


def test_every_field_is_documented():
    schema = Report.model_json_schema()
    fields = schema["properties"]
    for name in ("TableReport", "TableStatistics", "PsShare"):
        fields |= schema["$defs"][name]["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path):
    (tmp_path / "report.json").mkdir()
    with pytest.raises(RunError, match=r"report\.json: cannot write the report: Is a directory"):
        write_report(str(tmp_path / "report.json"), report_of([]))
    assert os.listdir(tmp_path) == ["report.json"]


def test_the_revision_is_that_of_the_source_or_of_the_current_folder(tmp_path, monkeypatch):
    def git(*arguments: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *settings, *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(versions.ps_cluster, "__file__", str(package / "__init__.py"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    assert versions.git_revision() is None
    git("init", "-q")
    (work / "job.yaml").write_text("a")
    git("add", ".")
    git("commit", "-qm", "first", "--no-verify")
    git("tag", "v1", "-m", "a tag is no commit")
    commit = git("rev-parse", "HEAD")
    assert versions.git_revision() == commit
    (work / "job.yaml").write_text("b")
    assert versions.git_revision() == commit + "-dirty"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions.git_revision() is None


def test_a_report_says_what_was_wrong_with_the_samples():
    report = report_of(
        [*run_events(), events.reading(side="test", rows_lost=3, nulls_filled={"age": 5}, files_lost=1)]
    ).model_dump()
    assert report["reading"] == {"test": {"rows_lost": 3, "nulls_filled": {"age": 5}, "files_lost": 1}}


def test_what_several_widths_save_is_told():
    tiers = [{"dim": 8, "rows": 900}, {"dim": 32, "rows": 100}]
    told = events.tables(tables=[{"name": "item", "rows": 1000, "bytes": 5, "tiers": tiers}])
    (table,) = report_of([*run_events(), told]).tables
    assert [(tier.dim, tier.rows) for tier in table.tiers] == [(8, 900), (32, 100)]
    assert table.parameters_saved == 900 * 24
    words = in_words(told["tables"][0])
    assert words == "900 rows of 8, 100 of 32: 67.5 % fewer parameters than all of 32"


def test_a_table_without_rows_saves_nothing():
    assert in_words({"tiers": [{"dim": 8, "rows": 0}, {"dim": 32, "rows": 0}]}) == "0 rows of 8, 0 of 32"
    assert in_words({"name": "plain", "rows": 7}) == ""
