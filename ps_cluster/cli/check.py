"""`ps-cluster check`: whether a job file is right, without running it."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `check` to the command line."""
    parser = subparsers.add_parser("check", help="check a job file and the footers of its samples; starts nothing")
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints one line on a right job file; a wrong one raises UserError with all its problems."""
    from dataclasses import asdict

    from ps_cluster.errors import UserError
    from ps_cluster.job.load import load_job
    from ps_cluster.job.resolve import tables_of
    from ps_cluster.job.samples import absent_samples, look_at_samples
    from ps_cluster.report.text import may_match

    job_file = load_job(args.job)
    looked = look_at_samples(job_file)
    job = job_file.job
    if looked.problems and job.data.on_bad == "error":
        raise UserError("\n".join(looked.problems))
    processes = f"{job.cluster.ps} PS, {_count(job.cluster.workers, 'worker')}"
    print(
        f"{args.job}: right: job {job.name}, model {job.model.name}, {_count(len(job.features), 'feature')}, "
        f"{_count(len(tables_of(job)), 'table')}, {processes}"
        + (f", {looked.rows:,} rows in {_count(looked.files, 'file')}" if looked.files else "")
    )
    if looked.pruned is not None:
        print(f"where: {may_match(asdict(looked.pruned))}")
    for problem in looked.problems:
        print(f"left out: {problem}")
    for absent in absent_samples(job_file):
        print(f"not here: {absent}")
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
