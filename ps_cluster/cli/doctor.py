"""`ps-cluster doctor`: which layer holds a training up, and what to change."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ps_cluster.watch.diagnosis import Diagnosis, Figures

_SECONDS = 10.0
_MOST_SECONDS = 86_400.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "doctor",
        help="say what holds a training up",
        description="Say which layer holds a training up, from the processes of a running job or from what a run has "
        "left: data first, then communication, then operators.",
    )
    parser.add_argument(
        "job", nargs="?", metavar="JOB", help="job file, output folder, or report (.json); default: job.yaml"
    )
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help=f"for which a running job is watched (default: {_SECONDS:g})"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the diagnosis."""
    from ps_cluster.errors import UserError
    from ps_cluster.watch.diagnosis import diagnose

    if not 0 < args.seconds <= _MOST_SECONDS:
        raise UserError(f"--seconds: expected a number above 0, at most {_MOST_SECONDS:g}, found {args.seconds:g}")
    figures, of = _figures(args.job, args.seconds)
    found = diagnose(figures)
    print(json.dumps({**asdict(found), "verdict": found.verdict}, indent=1) if args.json else _text(found, figures, of))
    return 0


def _figures(job: str | None, seconds: float) -> tuple[Figures, str]:
    """The figures, and in words what they are of."""
    from ps_cluster.errors import UserError
    from ps_cluster.report.json_report import report_of
    from ps_cluster.report.reading import read_report
    from ps_cluster.watch.figures import of_report, of_running
    from ps_cluster.watch.job_view import ENDED
    from ps_cluster.watch.place import Events, place_of

    if job is not None and job.endswith(".json"):
        return of_report(read_report(job), job), f"the run that {job} tells of"
    place = place_of(job)
    events = Events(place)
    told = events.read()
    runs = place.state not in ENDED and events.status.phase != "done"
    if runs and place.endpoints:
        try:
            figures = of_running(place.endpoints, events.status, seconds)
            return figures, f"{figures.steps} steps of the running job"
        except UserError as error:
            if not events.status.timed_steps:
                raise
            print(f"{error}; what follows is of all steps so far", file=sys.stderr)
    return of_report(report_of(told), place.output), f"the run in {place.output}"


def _text(found: Diagnosis, figures: Figures, of: str) -> str:
    shares = ", ".join(f"{part.replace('_', '-')} {share:.0%}" for part, share in found.shares.items())
    workers = f"worker {found.worker}, which waits least for the others" if len(figures.step_time) > 1 else "the worker"
    lines = [f"Of {of}, the time of {workers}:", f"  {shares}", ""]
    if not found.findings:
        lines.append("No layer is over its limit.")
    for number, finding in enumerate(found.findings):
        lines.append(f"{'Bottleneck' if not number else 'Then'}: {finding.layer}: {finding.text}")
        lines += [f"  {evidence}" for evidence in finding.evidence]
        lines.append("  change:")
        lines += [f"    {path}: {what}" for path, what in finding.change]
    return "\n".join(lines)
