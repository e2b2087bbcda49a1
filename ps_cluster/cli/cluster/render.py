"""`ps-cluster render`: what `kubectl apply -f -` needs to run a job."""

from __future__ import annotations

import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "render",
        help="print a job as objects of Kubernetes, for kubectl apply -f -",
        description="Print a job as objects of Kubernetes, as YAML: what `kubectl apply -f -` needs, and nothing else. "
        "The section `kubernetes` of the job file says how.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--jobset", action="store_true", help="PS and workers as one JobSet, for clusters that have it")
    what.add_argument("--serving", action="store_true", help="TF Serving of the job's SavedModel in place of the run")
    what.add_argument(
        "--evaluator", action="store_true", help="in place of the run: a pod that evaluates its newest checkpoint"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the objects."""
    from ps_cluster.job.load import load_job
    from ps_cluster.kubernetes.planned import planned_sizing
    from ps_cluster.kubernetes.render import evaluator_objects, model_server_objects, run_objects
    from ps_cluster.kubernetes.yaml_output import yaml_text

    job_file = load_job(args.job)
    if args.serving:
        objects = model_server_objects(job_file)
    elif args.evaluator:
        objects = evaluator_objects(job_file)
    else:
        objects = run_objects(job_file, args.jobset, planned_sizing)
    print(yaml_text(objects), end="")
    return 0
