"""`ps-cluster data verify`: reads everything and tells what is damaged."""

from __future__ import annotations

import argparse
import os

from ps_cluster.cli.data.progress import Progress
from ps_cluster.cli.data.unlisted import tell_unlisted
from ps_cluster.errors import UserError

_VERIFY = (
    "Reads all of the ORC files: bytes are compared with the checksums in the files, decoded values with row counts, "
    "statistics and bloom filters, and whole files with the manifest of a folder that has one. A line for each "
    "problem; exit code 1 when there is any. What a manifest does not list is named, but not read."
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    verify = kinds.add_parser("verify", help="read everything and compare it with checksums", description=_VERIFY)
    verify.add_argument("paths", metavar="PATH", nargs="+", help="an ORC file, a folder, a pattern or a manifest")
    verify.add_argument("--processes", type=int, help="processes that read (default: one for each processor)")
    verify.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.verify.many_files import list_files, verify_files

    processes = args.processes if args.processes is not None else len(os.sched_getaffinity(0))
    if processes < 1:
        raise UserError(f"--processes: expected at least 1, found {processes}")
    listed = list_files(args.paths, os.getcwd())
    tell_unlisted(args.paths)
    # A manifest tells the rows; else nobody knows them before all footers are read.
    told = [(one.manifest or {}).get("rows") for one in listed]
    total = sum(rows for rows in told if isinstance(rows, int)) if None not in told else 0
    begun = files = rows = file_bytes = unchecked = problems = damaged = 0
    with Progress("verify") as progress:

        def show(stripe_rows: int) -> None:
            nonlocal begun
            begun += stripe_rows
            progress.show(begun, max(total, begun) if total else 0)

        for report in verify_files(listed, processes, show):
            files += 1
            rows += report.rows
            file_bytes += report.file_bytes
            unchecked += not report.has_checksums and not report.problems
            problems += len(report.problems)
            damaged += bool(report.problems)
            if report.problems:
                progress.clear()
            for problem in report.problems:
                print(problem, flush=True)
    print(
        f"{files:,} file{'s' * (files != 1)}, {rows:,} good row{'s' * (rows != 1)}, {file_bytes:,} bytes; "
        f"{unchecked:,} without checksums"
    )
    if not problems:
        print("no problem found")
        return 0
    print(f"{problems:,} problem{'s' * (problems != 1)} in {damaged:,} file{'s' * (damaged != 1)}")
    return 1
