"""Reports of runs that somebody names: what no run can have done is refused by field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.cli.main import main
from ps_cluster.errors import UserError
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


def test_the_doctor_refuses_a_report_that_lists_a_table_twice(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(written.read_text())
    written.write_text(json.dumps({**content, "tables": content["tables"] * 2}))
    assert main(["doctor", str(written)]) == 2
    assert "tables[2].name: expected a name no other table has, found 'user'" in capsys.readouterr().err
