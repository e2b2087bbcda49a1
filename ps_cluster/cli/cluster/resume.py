"""`ps-cluster resume`: go on with a run that was stopped or has failed."""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    from ps_cluster.cli.cluster.named import add_arguments

    parser = subparsers.add_parser(
        "resume",
        help="go on with a run on Kubernetes that was stopped or has failed",
        description="Start the pods of a run again, which goes on from its newest checkpoint with the job file it was "
        "begun with, and follow it.",
    )
    add_arguments(parser)
    parser.add_argument("--detach", action="store_true", help="do not follow")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Returns the run's exit code."""
    from ps_cluster.cli.cluster.named import followed, named_run
    from ps_cluster.kubernetes.life import resume

    cluster_run = named_run(args)
    print(resume(cluster_run), end="", file=sys.stderr, flush=True)
    return 0 if args.detach else followed(cluster_run)
