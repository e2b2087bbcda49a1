"""A plan beside what a finished run says of itself: each figure's error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile, tables_of
from ps_cluster.plan.plan import Plan
from ps_cluster.plan.text import shown
from ps_cluster.plan.types import Facts


@dataclass(frozen=True)
class Compared:
    """error: predicted over measured, minus 1."""

    name: str
    predicted: float
    measured: float
    unit: str

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1 if self.measured else (0.0 if not self.predicted else float("inf"))


def read_report(path: str) -> dict[str, Any]:
    """What a report of a run says that names its tables; errors as of `ps_cluster.report.reading`."""
    from ps_cluster.report.reading import read_report as read

    found = read(path)
    if not found.tables:
        raise UserError(f"{path}: tables: expected those of a run, found none")
    return found.model_dump()


def check_report_of(job_file: JobFile, path: str, report: Mapping[str, Any]) -> None:
    """Returns when the report at `path` tells of exactly the job's tables.

    Raises:
      UserError: it is of another job, or of this one with other tables.
    """
    expected, found = set(tables_of(job_file.job)), {table["name"] for table in report["tables"]}
    if expected != found:
        raise UserError(
            f"{path}: tables: expected those of {job_file.path} ({', '.join(sorted(expected))}), "
            f"found those of a run of job {report['job'] or 'without a name'} ({', '.join(sorted(found))})"
        )


def compare(facts: Facts, plan: Plan, report: Mapping[str, Any]) -> list[Compared]:
    """What both tell of."""
    return [one for one in _pairs(facts, plan, report) if one.measured is not None]


def _pairs(facts: Facts, plan: Plan, report: Mapping[str, Any]) -> Iterator[Compared]:
    for table in report["tables"]:
        section = plan.tables.get(table["name"])
        if section is None:
            continue
        name = table["name"]
        yield Compared(f"{name}: rows", section["rows"].value, table["rows"], "rows")
        yield Compared(f"{name}: payload_bytes", section["payload_bytes"].value, table["bytes"], "B")
        counted = table.get("statistics")
        if not counted:
            continue
        places = len(counted["ps"])
        yield Compared(f"{name}: memory_bytes", section["bytes_per_ps"].value * places, counted["memory_bytes"], "B")
        if counted["counted_ids"] and "counted_ids" in section:
            yield Compared(f"{name}: counted_ids", section["counted_ids"].value, counted["counted_ids"], "ids")
        fullest = max((share["rows"] for share in counted["ps"]), default=0)
        if fullest:
            yield Compared(
                f"{name}: rows of the fullest PS",
                section["rows"].value / places * plan.server["unevenness"].value, fullest, "rows",
            )  # fmt: skip
        for tier in table.get("tiers", []):
            predicted = section.get(f"rows_of_{tier['dim']}")
            if predicted is not None:
                yield Compared(f"{name}: rows of {tier['dim']}", predicted.value, tier["rows"], "rows")
    if report.get("dense_parameters"):
        yield Compared("dense_parameters", facts.dense.parameters, report["dense_parameters"], "numbers")
    if report.get("flops_per_row"):
        yield Compared("flops_per_row", facts.dense.flops_per_row, report["flops_per_row"], "operations")
    if report.get("steps") and report.get("epochs"):
        yield Compared("steps", plan.time["steps"].value * report["epochs"], report["steps"], "steps")
    if report.get("exchanged_bytes"):
        yield Compared(
            "bytes between a worker and the PS, a step",
            sum(plan.network[name].value for name in ("request_bytes", "pull_bytes", "push_bytes")),
            report["exchanged_bytes"], "B",
        )  # fmt: skip
    yield from _processes(facts, plan, report)
    if report.get("samples_per_second"):
        yield Compared("samples_per_second", plan.time["rows_per_second"].value, report["samples_per_second"], "rows/s")


def _processes(facts: Facts, plan: Plan, report: Mapping[str, Any]) -> Iterator[Compared]:
    """Memory and processor time; of each role the process with the most."""
    for role, section in (("ps", plan.server), ("worker", plan.worker)):
        found = [one for one in report.get("processes") or [] if one["role"] == role]
        if not found:
            continue
        most = max(one.get("peak_memory_bytes") or one["memory_bytes"] for one in found)
        yield Compared(f"memory of a {role}", section["memory_bytes"].value, most, "B")
        steps = found[0].get("steps") or report.get("timed_steps")
        if steps:
            spent = max(one["cpu_seconds"] for one in found) / steps
            yield Compared(f"CPU of a {role}, a step", section["cpu_seconds_per_step"].value, spent, "CPU-s")


def comparison_text(found: list[Compared]) -> str:
    """A line for each figure."""
    lines = [
        f"  {one.name}: predicted {shown(one.predicted, one.unit)}, measured {shown(one.measured, one.unit)}, "
        f"error {one.error:+.1%}"
        for one in found
    ]
    worst = max((abs(one.error) for one in found), default=0.0)
    return "\n".join(["prediction and run", *lines, f"  largest error {worst:.1%} of {len(found)} figures"])
