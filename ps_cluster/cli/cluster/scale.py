"""`ps-cluster scale`: go on with other numbers of PS and workers."""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    from ps_cluster.cli.cluster.named import add_arguments

    parser = subparsers.add_parser(
        "scale",
        help="go on with a run on Kubernetes with other numbers of PS and workers",
        description="Stop a run after a last checkpoint, and start it again with other numbers of PS and workers, "
        "which share the tables and the remaining rows anew.",
    )
    add_arguments(parser)
    parser.add_argument("--ps", type=int, metavar="N", help="number of PS; default: as now")
    parser.add_argument("--workers", type=int, metavar="N", help="number of workers; default: as now")
    parser.add_argument("--detach", action="store_true", help="do not follow")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Returns the run's exit code."""
    from ps_cluster.cli.cluster.named import followed, named_run
    from ps_cluster.errors import UserError
    from ps_cluster.kubernetes.life import scale

    if args.ps is None and args.workers is None:
        raise UserError("scale: expected --ps or --workers, found neither")
    cluster_run = named_run(args)
    print(scale(cluster_run, args.ps, args.workers), end="", file=sys.stderr, flush=True)
    return 0 if args.detach else followed(cluster_run)
