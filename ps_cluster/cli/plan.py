"""`ps-cluster plan`: what a job needs, before it runs."""

from __future__ import annotations

import argparse
import os

_PLAN = (
    "Say what a job needs: rows, memory of PS and workers, network, checkpoint, time, each number with its formula. "
    "Reads the samples once in constant memory, and starts nothing; with --calibrate it measures this machine first."
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `plan` to the command line."""
    parser = subparsers.add_parser("plan", help="what a job needs: memory, network, time", description=_PLAN)
    parser.add_argument("job", metavar="job.yaml", nargs="?", help="job file; may be left out with --calibrate")
    parser.add_argument(
        "--samples",
        metavar="FILES",
        nargs="+",
        default=[],
        help="ORC files, folders or patterns to read in place of data.train",
    )
    parser.add_argument(
        "--share",
        type=_share,
        default=1.0,
        metavar="S",
        help="read only the first share of the rows, such as 0.1; the rest is forecast",
    )
    parser.add_argument(
        "--days", type=_positive, metavar="N", help="days of the log to look at (default: planning.days, else all rows)"
    )
    parser.add_argument(
        "--ids",
        metavar="TABLE=N",
        action="append",
        default=[],
        help="different ids of a table at the horizon, in place of a forecast",
    )
    parser.add_argument(
        "--ps",
        type=_count,
        metavar="N",
        help="plan for N PS (default: the least that hold the horizon with planning.ps_memory, else cluster.ps)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--brief", action="store_true", help="no formulas")
    parser.add_argument("--html", metavar="FILE", help="also write a web page")
    parser.add_argument(
        "--constants",
        metavar="FILE",
        help="constants of a machine (default: what --calibrate stored, else stated defaults)",
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine's constants first, with the job's model where one is given, "
        "about a minute, and store them at --constants or in ~/.cache/ps-cluster",
    )
    parser.add_argument("--check", metavar="REPORT", help="compare the plan with the report of a finished run")
    parser.add_argument("--from-report", metavar="REPORT", help="plan from the rows that a finished run had")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the plan."""
    # Read when NumPy is imported. Forecasts run side by side; threads for each of their small products only get into
    # one another's way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    import json
    import math
    from dataclasses import asdict

    from ps_cluster.cli.data.progress import Progress
    from ps_cluster.errors import UserError
    from ps_cluster.job.load import load_job
    from ps_cluster.plan import constants

    if args.from_report and (args.days is not None or args.ids or (args.share != 1 and not args.samples)):
        raise UserError("--from-report: expected no --days, --ids or --share of other rows, as the run's rows count")
    if args.job is None and not args.calibrate:
        raise UserError("plan: expected a job file, or --calibrate, found neither")
    if args.calibrate:
        from ps_cluster.plan.calibrate import calibrate

        path = args.constants or constants.default_path()
        calibrate(path, load_job(args.job).job if args.job is not None else None)
        if args.job is None:
            return 0
    known = constants.load(args.constants)
    job_file = load_job(args.job)
    _writable(args.html)
    ids = dict(_told(one) for one in args.ids)

    from ps_cluster.plan.comparison import check_report_of, compare, comparison_text, read_report
    from ps_cluster.plan.document import document
    from ps_cluster.plan.facts import check_wishes, facts_of, scan_of
    from ps_cluster.plan.html import html
    from ps_cluster.plan.plan import plan_of
    from ps_cluster.plan.text import text
    from ps_cluster.plan.what_if import variants

    report = read_report(args.from_report) if args.from_report else None
    finished = read_report(args.check) if args.check else None
    for path, read in ((args.from_report, report), (args.check, finished)):
        if read is not None:
            check_report_of(job_file, path, read)
    check_wishes(job_file, args.days, ids, report)
    with Progress("plan") as progress:
        scanned = None
        if report is None or args.samples:
            scanned = scan_of(job_file, args.samples, os.getcwd(), args.share, progress.show)
    facts = facts_of(job_file, scanned, known, args.days, ids, report)
    plan = plan_of(facts, args.ps if args.ps is not None else (finished or {}).get("ps"))
    changed = variants(facts, plan)
    if args.html:
        _write(args.html, html(facts, plan, changed))
    compared = compare(facts, plan, finished) if finished is not None else []
    if args.json:
        found = document(facts, plan, changed)
        if finished is not None:
            found["check"] = [
                {**asdict(one), "error": one.error if math.isfinite(one.error) else None} for one in compared
            ]
        print(json.dumps(found, indent=1))
        return 0
    print(text(facts, plan, changed, args.brief) if finished is None else comparison_text(compared))
    return 0


def _writable(path: str | None) -> None:
    from ps_cluster.errors import UserError

    if path is None:
        return
    if not path or os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UserError(f"--html: expected a file in a folder that exists, found {path!r}")


def _write(path: str, page: str) -> None:
    from ps_cluster.errors import RunError

    beside = f"{path}.partial"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(page)
        os.replace(beside, path)
    except OSError as error:
        raise RunError(f"--html: {path}: cannot write the page: {error.strerror}") from error


def _told(text: str) -> tuple[str, int]:
    from ps_cluster.errors import UserError

    name, _, number = text.partition("=")
    try:
        count = int(float(number))
    except (ValueError, OverflowError):
        count = 0
    if not name or count < 1:
        raise UserError(f"--ids: expected TABLE=NUMBER with a number above 0, found {text!r}")
    return name, count


def _share(text: str) -> float:
    value = _positive(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"expected a share above 0, at most 1, found {text!r}")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def _count(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1 <= value <= 512:
        raise argparse.ArgumentTypeError(f"expected a number of PS from 1 to 512, found {text!r}")
    return value
