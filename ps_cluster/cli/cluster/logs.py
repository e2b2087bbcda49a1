"""`ps-cluster logs`: what the pods of a run print."""

from __future__ import annotations

import argparse
import os


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    from ps_cluster.cli.cluster.named import add_arguments

    parser = subparsers.add_parser("logs", help="what the pods of a run print")
    add_arguments(parser)
    parser.add_argument("--role", choices=("worker", "ps"), default="worker", help="default: worker")
    parser.add_argument("--index", type=int, metavar="N", help="of this one only, from 0; default: of all")
    parser.add_argument("--follow", action="store_true", help="go on as they print more")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """kubectl takes this process over."""
    from ps_cluster.cli.cluster.named import named_run
    from ps_cluster.kubernetes.follow import INDEX_LABEL
    from ps_cluster.kubernetes.kubectl import selected
    from ps_cluster.kubernetes.names import selector

    cluster_run = named_run(args)
    chosen = selector(cluster_run.job, args.role)
    if args.index is not None:
        chosen[INDEX_LABEL] = str(args.index)
    command = cluster_run.kubectl.command(
        "logs",
        "--selector",
        selected(chosen),
        "--prefix",
        "--tail=-1",
        "--max-log-requests=1000",
        *(["--follow"] if args.follow else []),
    )
    os.execv(command[0], command)
