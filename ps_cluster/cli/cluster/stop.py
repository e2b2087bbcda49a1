"""`ps-cluster stop`: end a run where it can go on later."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    from ps_cluster.cli.cluster.named import add_arguments

    parser = subparsers.add_parser(
        "stop",
        help="end a run on Kubernetes, after a last checkpoint",
        description="End a run on Kubernetes: the workers write a last checkpoint, then all pods end, and what made "
        "them is deleted. The volume stays, and with it the checkpoints.",
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Stops it; prints how to go on."""
    from ps_cluster.cli.cluster.named import named_run
    from ps_cluster.kubernetes.life import stop

    cluster_run = named_run(args)
    stop(cluster_run)
    print(f"{cluster_run.job} has stopped; ps-cluster resume {args.name} goes on from the newest checkpoint")
    return 0
