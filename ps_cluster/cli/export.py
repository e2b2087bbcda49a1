"""`ps-cluster export`: a SavedModel from the newest checkpoint."""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "export",
        help="write a SavedModel from a job's newest checkpoint",
        description="Write the newest checkpoint as a SavedModel and print its folder. The form `plain` is served by "
        "any TensorFlow; `ops` needs the library ops/_rankmixer.so and is faster; both give the same scores.",
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.add_argument("--form", choices=("plain", "ops", "both"), default="plain", help="default: plain")
    parser.add_argument(
        "--to",
        metavar="DIR",
        help="folder of numbered versions (default: export in the job's output folder, export-ops for the form ops); "
        "with `--form both` the form ops lies in DIR-ops",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export; prints the new versions' folders, that of the plain form first."""
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    from ps_cluster.job.load import load_job
    from ps_cluster.quiet import held_output, import_tensorflow

    job_file = load_job(args.job)
    import_tensorflow(gpu=False)
    from ops.library import load, load_rankmixer
    from ps_cluster.export.saved_model import export_saved_model
    from ps_cluster.roles.readable import readable_errors

    load()
    told: list[str] = []  # of damaged files; shown when nothing is held back any more
    folders = []
    with readable_errors(pages=False), held_output():
        if args.form != "plain":
            load_rankmixer()
        if args.form != "ops":
            folders.append(export_saved_model(job_file, args.to, told.append))
        if args.form != "plain":
            parent = f"{args.to.rstrip('/')}-ops" if args.to and args.form == "both" else args.to
            folders.append(export_saved_model(job_file, parent, told.append, "ops"))
    for line in dict.fromkeys(told):
        print(line, file=sys.stderr)
    print(*folders, sep="\n")
    return 0
