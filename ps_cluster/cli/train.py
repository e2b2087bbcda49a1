"""`ps-cluster train`: train a job on a cluster of processes of this machine."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "train",
        help="train a job on this machine",
        description="Start the job's parameter servers and workers as processes of this machine and follow "
        "them. Ctrl-C saves where training stands and ends with 75, a second one stops them at once.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the results of an earlier run in the output folder"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a run that was interrupted, from its newest whole checkpoint"
    )
    parser.add_argument("--report", metavar="FILE", help="write a report of the run, as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train; returns the exit code."""
    from ps_cluster.errors import UserError
    from ps_cluster.job.load import load_job
    from ps_cluster.job.samples import absent_samples
    from ps_cluster.launch.local import run_local

    job_file = load_job(args.job)
    if absent := absent_samples(job_file):  # the processes would find the same, half a minute later
        raise UserError("\n".join(absent))
    if args.resume and args.overwrite:
        raise UserError("--resume: goes on with an earlier run, which --overwrite removes; expected one of them")
    return run_local(job_file, overwrite=args.overwrite, resume=args.resume, report=args.report)
