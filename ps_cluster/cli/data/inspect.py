"""`ps-cluster data inspect`: what is in sample files."""

from __future__ import annotations

import argparse
import os

from ps_cluster.cli.data.progress import Progress
from ps_cluster.cli.data.unlisted import tell_unlisted
from ps_cluster.errors import UserError

_INSPECT = (
    "Tells how sample files are laid out (stripes, bytes of each column, order) and what their values are like "
    "(coverage, different ids, times). Reads all values once, in bounded memory; with --fast only the footers."
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    inspect = kinds.add_parser("inspect", help="what is in sample files, column by column", description=_INSPECT)
    inspect.add_argument(
        "files",
        metavar="FILES",
        nargs="+",
        help="ORC files, folders, patterns or manifests; local, s3:// or hdfs://",
    )
    inspect.add_argument("--fast", action="store_true", help="read footers only: no coverage, ids and order")
    inspect.add_argument("--time", metavar="COLUMN", help="column of times (default: one with a usual name)")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.add_argument("--html", metavar="FILE", help="also write a web page with plots")
    inspect.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.errors import DataError
    from data.inspect.html import html
    from data.inspect.survey import inspect, to_json
    from data.inspect.text import text
    from data.paths import expand

    if args.html is not None:
        if not args.html or not os.path.isdir(os.path.dirname(os.path.abspath(args.html))):
            raise UserError(f"--html: expected a file in a folder that exists, found {args.html!r}")
        if os.path.isdir(args.html):
            raise UserError(f"--html: expected a file, found the folder {args.html}")
    try:
        paths = expand(args.files, os.getcwd())
        tell_unlisted(args.files)
        paths = [os.path.relpath(p) if p.startswith(os.getcwd() + os.sep) else p for p in paths]
        with Progress("inspect") as progress:
            report = inspect(paths, args.fast, args.time, progress.show)
    except DataError as error:
        raise UserError(str(error)) from error
    if args.html is not None:
        beside = f"{args.html}.{os.getpid()}.partial"
        try:
            with open(beside, "w", encoding="utf-8", errors="replace") as file:
                file.write(html(report, ", ".join(args.files)))
            os.replace(beside, args.html)
        except BaseException:
            if os.path.exists(beside):
                os.remove(beside)
            raise
    print(to_json(report) if args.json else text(report))
    return 0
