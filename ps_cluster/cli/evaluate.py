"""`ps-cluster evaluate`: test figures of the newest checkpoint."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "evaluate",
        help="score the test rows with a job's newest checkpoint",
        description="Score the test rows with the newest checkpoint, in one process that holds all tables, and "
        "print AUC, log-loss and calibration as JSON.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate; prints one JSON object."""
    import json
    from dataclasses import asdict

    from ps_cluster.job.load import load_job
    from ps_cluster.quiet import import_tensorflow

    job_file = load_job(args.job)
    import_tensorflow()
    from ops.library import load
    from ps_cluster.roles.evaluation import run_evaluation

    load()
    print(json.dumps(asdict(run_evaluation(job_file)), indent=1))
    return 0
