"""How a command is told which run it is about."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ps_cluster.job.resolve import JobFile
    from ps_cluster.kubernetes.cluster_run import ClusterRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run's name and namespace."""
    parser.add_argument("name", metavar="NAME", help="the job's name, or its job file")
    parser.add_argument("--namespace", metavar="NAME", help="default: that of the job file, or kubectl's current one")


def named_run(args: argparse.Namespace) -> ClusterRun:
    """The run that the arguments name.

    Raises:
      UserError: there is no kubectl, or the job file is wrong.
    """
    from ps_cluster.job.load import load_job
    from ps_cluster.kubernetes.cluster_run import ClusterRun
    from ps_cluster.kubernetes.kubectl import find_kubectl

    name, namespace = args.name, args.namespace
    if name.endswith((".yaml", ".yml")) or os.path.sep in name:
        job = load_job(name).job
        name, namespace = job.name, namespace or job.kubernetes.namespace
    return ClusterRun(find_kubectl(namespace), name)


def run_of_job(job_file: JobFile) -> ClusterRun:
    """The run of a job. Raises UserError: there is no kubectl."""
    from ps_cluster.kubernetes.cluster_run import ClusterRun
    from ps_cluster.kubernetes.kubectl import find_kubectl

    return ClusterRun(find_kubectl(job_file.job.kubernetes.namespace), job_file.job.name)


def followed(run: ClusterRun) -> int:
    """Exit code of the run; Ctrl-C ends only the looking."""
    from ps_cluster.kubernetes.follow import follow

    try:
        return follow(run)
    except KeyboardInterrupt:
        print(f"the run goes on: ps-cluster logs {run.job}, ps-cluster stop {run.job}", file=sys.stderr)
        raise
