"""A report of a run that somebody names: read, and refused by field where it tells what no run can have done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from ps_cluster.errors import UserError
from ps_cluster.job.problems import Path, Problem, found_text, quoted
from ps_cluster.job.words import problems_of
from ps_cluster.json_file import read_mapping, wrong
from ps_cluster.report.json_report import Report

_MOST = 1e21
"""No run counts, takes or moves as many of anything; what is computed from such numbers is finite."""

_OF_QUALITY = frozenset({"loss", "train_auc", "auc", "log_loss", "calibration", "experts", "sampling", "settings"})
"""Fields that a training that went wrong may leave without a number, or that are the job's."""

_SCHEMA = Report.model_json_schema()


def read_report(path: str) -> Report:
    """The report of a run in a file, that of `ps-cluster train --report`; UserError names file and field."""
    content = read_mapping(path, "a report of a run")
    try:
        report = Report.model_validate(content)
    except ValidationError as error:
        raise wrong(path, problems_of(error, content, _SCHEMA)[0]) from None
    for place, number in _numbers((), report):
        if not abs(number) <= _MOST:  # NaN neither
            raise wrong(path, Problem(place, f"a number of at most {_MOST:g}", found_text(number)))
    for field in ("steps", "rows"):
        if getattr(report, field) == 0:  # such a run ends, but nothing can be told of it
            raise UserError(f"{path}: {field}: expected those of a run that trained, found 0")
    first: dict[str, int] = {}
    for index, table in enumerate(report.tables):
        if first.setdefault(table.name, index) != index:
            raise UserError(
                f"{path}: tables[{index}].name: expected a name no other table has, found {quoted(table.name)}, as "
                f"tables[{first[table.name]}] is named"
            )
    return report


def _numbers(place: Path, value: Any) -> Iterator[tuple[Path, float]]:
    """What a report counts and measures, and where."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if place or name not in _OF_QUALITY:
                yield from _numbers((*place, name), getattr(value, name))
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _numbers((*place, name), one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _numbers((*place, index), one)
    elif isinstance(value, (int, float)):
        yield place, value
