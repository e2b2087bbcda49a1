"""`ps-cluster data popularity`: how often each id occurs."""

from __future__ import annotations

import argparse
import os

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import UserError

_ABOUT = (
    "Counts exactly how often each id occurs, in bounded memory, and writes ids and counts as an ORC file, the most "
    "frequent first: what `popularity` in a job file's `data.sampling` names."
)
_SHOWN_RANKS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    parser = kinds.add_parser("popularity", help="count how often each id occurs, for sampling", description=_ABOUT)
    parser.add_argument("samples", metavar="SAMPLES", nargs="+", help="ORC files, folders or globs")
    parser.add_argument("--column", metavar="NAME", required=True, help="column of ids, or of arrays of ids")
    parser.add_argument("--out", metavar="FILE", required=True, help="ORC file to write; replaces an earlier one")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.paths import expand
    from data.sample.popularity import count_ids, most_frequent

    paths = expand(args.samples, os.getcwd())
    if not os.path.isdir(os.path.dirname(args.out) or ".") or not args.out:
        raise UserError(f"--out: expected a file in a folder that exists, found {args.out!r}")
    if os.path.isdir(args.out):
        raise UserError(f"--out: expected a file, found the folder {args.out}")
    if os.path.abspath(args.out) in map(os.path.abspath, paths):
        raise UserError(f"--out: expected a file other than the samples, found {args.out}")
    with Progress(f"ids of {args.column}") as progress:
        totals = count_ids(paths, args.column, args.out, progress.show)
    told = [(totals.occurrences, "occurrence"), (totals.nulls, "null")]
    counted = ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for count, name in told)
    print(f"{args.out}: {totals.ids:,} id{'s' * (totals.ids != 1)} of {args.column}, {counted}")
    counts = most_frequent(args.out, ids=_SHOWN_RANKS[-1])[1].cumsum()
    for rank in (rank for rank in _SHOWN_RANKS if rank < totals.ids):
        most = "the most frequent" if rank == 1 else f"the {rank:,} most frequent"
        print(f"  {most}: {counts[rank - 1] / totals.occurrences:.1%} of all occurrences")
    return 0
