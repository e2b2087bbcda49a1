"""`ps-cluster launch`: run a job on Kubernetes and follow it."""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "launch",
        help="run a job on Kubernetes, through kubectl",
        description="Render a job, apply it with kubectl, and follow worker 0's log to the end. Exit code: the run's. "
        "Ctrl-C ends the following, not the run.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.add_argument("--jobset", action="store_true", help="PS and workers as one JobSet, for clusters that have it")
    parser.add_argument("--detach", action="store_true", help="do not follow")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Returns the run's exit code."""
    from ps_cluster.cli.cluster.named import followed, run_of_job
    from ps_cluster.job.load import load_job
    from ps_cluster.kubernetes.life import begin
    from ps_cluster.kubernetes.planned import planned_sizing
    from ps_cluster.kubernetes.render import run_objects

    job_file = load_job(args.job)
    objects = run_objects(job_file, args.jobset, planned_sizing)
    cluster_run = run_of_job(job_file)
    print(begin(cluster_run, objects), end="", file=sys.stderr, flush=True)
    return 0 if args.detach else followed(cluster_run)
