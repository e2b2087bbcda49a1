"""`ps-cluster export`: a SavedModel from a checkpoint, or what changed since an earlier one."""

from __future__ import annotations

import argparse
import sys

_ABOUT = (
    "Write the newest checkpoint as a SavedModel and print its folder; the job may be running. The form `plain` is "
    "served by any TensorFlow; `ops` needs the library ops/_rankmixer.so and is faster; both give the same scores. "
    "`tfra` holds the tables as TFRA's, whose ops the server must have. "
    "`sharded` puts the rows of the tables into several SavedModels, for tables that are too large for one server. "
    "--since writes a delta: what makes an earlier version the new one, which `ps-cluster apply` does where it is "
    "served."
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "export", help="write a SavedModel from a job's newest checkpoint", description=_ABOUT
    )
    parser.add_argument("job", metavar="job.yaml", help="job file")
    parser.add_argument(
        "--form", choices=("plain", "ops", "both", "tfra", "sharded"), default="plain", help="default: plain"
    )
    parser.add_argument("--shards", type=int, metavar="N", help="SavedModels with rows, of the form sharded")
    parser.add_argument(
        "--rows",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="how rows of tables are stored; int8 with a factor for each row (default: float32)",
    )
    parser.add_argument(
        "--to",
        metavar="DIR",
        help="folder of numbered versions (default: export in the job's output folder, export-ops for the form ops, "
        "export-tfra, export-sharded); with `--form both` the form ops lies in DIR-ops",
    )
    parser.add_argument(
        "--since",
        type=int,
        metavar="V",
        help="write only what changed since version V, in that version's form and type of rows",
    )
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="a step's folder, or one of checkpoints (default: the job's newest one)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare scores with the trainer's on test rows first, and publish nothing where a logit is further away "
        "than 1e-5 (float16: 0.01, int8: 0.05), of logits above 1 that share of the logit",
    )
    parser.add_argument(
        "--as-scheduled",
        action="store_true",
        help="as the job's section `export` says: a delta or a whole version of the newest checkpoint",
    )
    parser.add_argument("--samples", type=int, metavar="N", help="rows that --check compares (default: 4096)")
    parser.add_argument("--tolerance", type=float, metavar="X", help="of --check, in place of these")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Export; prints the new folders, that of the plain form first."""
    from ps_cluster.errors import UserError
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    from ps_cluster.job.load import load_job
    from ps_cluster.quiet import held_output, import_tensorflow

    given = (args.form, args.shards, args.rows, args.to, args.since, args.checkpoint, args.check)
    if args.as_scheduled and given != ("plain", None, "float32", None, None, None, False):
        raise UserError("--as-scheduled: expected no other flag, as the job file says all")
    if (args.form == "sharded" and args.since is None) != (args.shards is not None):
        raise UserError("--shards: expected a number of them with --form sharded, and not with another form or --since")
    if args.since is not None and (args.form in ("both", "tfra") or args.rows != "float32"):
        raise UserError(
            "--since: expected no --rows, as those of the version count, and the form plain, ops or sharded"
        )
    if not args.check and (args.samples is not None or args.tolerance is not None):
        raise UserError("--samples, --tolerance: expected only with --check")
    if (args.samples is not None and args.samples < 1) or (args.tolerance is not None and not args.tolerance >= 0):
        raise UserError("--samples, --tolerance: expected at least one row, and a number from 0 on")
    job_file = load_job(args.job)
    import_tensorflow(gpu=False)
    from ops.library import load, load_rankmixer
    from ps_cluster.checkpoint.finding import checkpoint_at
    from ps_cluster.checkpoint.storage import load_file_systems
    from ps_cluster.export.check import SAMPLES, CheckSettings
    from ps_cluster.export.delta import export_delta
    from ps_cluster.export.saved_model import Asked, default_parent, export_saved_model
    from ps_cluster.export.scheduled import export_as_scheduled
    from ps_cluster.export.sharded import export_sharded
    from ps_cluster.export.sharded_delta import export_sharded_delta
    from ps_cluster.roles.readable import readable_errors

    load()
    told: list[str] = []  # of damaged files; shown when nothing is held back any more
    folders = []
    check = CheckSettings(SAMPLES if args.samples is None else args.samples, args.tolerance) if args.check else None
    with readable_errors(pages=False), held_output():
        checkpoint = None
        if args.checkpoint is not None:
            load_file_systems(args.checkpoint)
            checkpoint = checkpoint_at(args.checkpoint)
        asked = Asked(told.append, checkpoint, check)
        scheduled = job_file.job.export if args.as_scheduled else None
        if args.form in ("ops", "both") or (scheduled is not None and scheduled.form == "ops"):
            load_rankmixer()
        if args.as_scheduled:
            folders.append(export_as_scheduled(job_file, told.append))
        elif args.since is not None and args.form == "sharded":
            folders.append(export_sharded_delta(job_file, args.since, args.to, asked))
        elif args.since is not None:
            folders.append(export_delta(job_file, args.since, args.to or default_parent(job_file, args.form), asked))
        elif args.form == "sharded":
            folders.append(export_sharded(job_file, args.shards, args.to, args.rows, asked))
        else:
            for form in ("plain", "ops") if args.form == "both" else (args.form,):
                parent = f"{args.to.rstrip('/')}-ops" if args.to and (args.form, form) == ("both", "ops") else args.to
                folders.append(export_saved_model(job_file, parent, form, args.rows, asked))
    for line in dict.fromkeys(told):
        print(line, file=sys.stderr)
    print(*folders, sep="\n")
    return 0
