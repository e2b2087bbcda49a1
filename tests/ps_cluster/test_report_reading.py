"""Reports of runs that somebody names: what no run can have done is refused by field."""

from __future__ import annotations

import copy
import functools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.cli.main import main
from ps_cluster.errors import UserError
from ps_cluster.job.problems import path_text
from ps_cluster.report import report_of, write_report
from ps_cluster.report.reading import read_report
from tests.ps_cluster.run_events import run_events


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    write_report(str(path), report_of(run_events()))
    return path


def test_a_report_that_was_written_is_read_again(written: Path) -> None:
    assert read_report(str(written)) == report_of(run_events())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"epochs": 0}, "epochs: expected an integer above 0, found 0"),
        ({"workers": 0}, "workers: expected an integer above 0, found 0"),
        ({"steps": -1}, "steps: expected an integer of at least 0, found -1"),
        ({"steps": 0}, "steps: expected those of a run that trained, found 0"),
        ({"rows": 0}, "rows: expected those of a run that trained, found 0"),
        ({"epocs": 3}, "epocs: expected one of the fields "),
        (
            {"tables": [{"name": "user", "bytes": 3}]},
            "tables[0].rows: expected an integer of at least 0, found no such",
        ),
        (
            {"tables": [{"name": name, "rows": 1, "bytes": 4} for name in ("user", "item", "user")]},
            "tables[2].name: expected a name no other table has, found 'user', as tables[0] is named",
        ),
    ],
)
def test_what_no_run_can_have_done_is_refused(written: Path, changed: dict[str, Any], told: str) -> None:
    written.write_text(json.dumps({**json.loads(written.read_text()), **changed}))
    with pytest.raises(UserError, match=re.escape(f"{written}: {told}")):
        read_report(str(written))


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a report has numbers that are counted or measured."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (dict, list)):
            yield from places(one, (*above, key))
        elif isinstance(one, (int, float)):
            yield (*above, key)


QUALITY = {"loss", "train_auc", "auc", "log_loss", "calibration", "experts", "sampling", "settings"}


@pytest.mark.parametrize("number", [10**30, -(10**400), 1e308, "Infinity", "NaN"])
def test_numbers_that_are_none_or_far_too_large_are_refused_wherever_they_are(written: Path, number: object) -> None:
    content = json.loads(written.read_text())
    found = [place for place in places(content) if place[0] not in QUALITY | {"format_version"}]
    assert {("rows",), ("step_time", 0, "pull"), ("tables", 0, "bytes"), ("processes", 0, "cpu_seconds")} <= set(found)
    for *above, last in found:
        changed = copy.deepcopy(content)
        functools.reduce(lambda inside, key: inside[key], above, changed)[last] = number
        written.write_text(json.dumps(changed))
        with pytest.raises(UserError, match=re.escape(f"{written}: {path_text((*above, last))}: expected ")):
            read_report(str(written))


def test_figures_of_a_training_that_went_wrong_are_read(written: Path) -> None:
    content = {**json.loads(written.read_text()), "loss": "NaN", "calibration": "Infinity"}
    written.write_text(json.dumps(content))
    assert read_report(str(written)).calibration == math.inf


def test_the_doctor_refuses_a_report_that_lists_a_table_twice(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(written.read_text())
    written.write_text(json.dumps({**content, "tables": content["tables"] * 2}))
    assert main(["doctor", str(written)]) == 2
    assert "tables[2].name: expected a name no other table has, found 'user'" in capsys.readouterr().err
