"""A report of a run that somebody names: read, and refused by field where it tells what no run can have done."""

from __future__ import annotations

from pydantic import ValidationError

from ps_cluster.errors import UserError
from ps_cluster.job.problems import quoted
from ps_cluster.job.words import problems_of
from ps_cluster.json_file import read_mapping, wrong
from ps_cluster.report.json_report import Report

_SCHEMA = Report.model_json_schema()


def read_report(path: str) -> Report:
    """The report of a run in a file, that of `ps-cluster train --report`; UserError names file and field."""
    content = read_mapping(path, "a report of a run")
    try:
        report = Report.model_validate(content)
    except ValidationError as error:
        raise wrong(path, problems_of(error, content, _SCHEMA)[0]) from None
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
