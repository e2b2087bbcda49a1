"""`ps-cluster export`: a SavedModel from the newest checkpoint."""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "export",
        help="write a SavedModel from a job's newest checkpoint",
        description="Write the newest checkpoint as a SavedModel that plain TensorFlow serves, and print its folder.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.add_argument(
        "--to", metavar="DIR", help="folder of numbered versions (default: export in the job's output folder)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export; prints the new version's folder."""
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    from ps_cluster.job.load import load_job
    from ps_cluster.quiet import held_output, import_tensorflow

    job_file = load_job(args.job)
    import_tensorflow(gpu=False)
    from ops.library import load
    from ps_cluster.export.saved_model import export_saved_model
    from ps_cluster.roles.readable import readable_errors

    load()
    told: list[str] = []  # of damaged files; shown when nothing is held back any more
    with readable_errors(pages=False), held_output():
        folder = export_saved_model(job_file, args.to, told.append)
    for line in told:
        print(line, file=sys.stderr)
    print(folder)
    return 0
