"""`ps-cluster score`: scores of ORC rows by an exported model."""

from __future__ import annotations

import argparse
import os
import sys

_ABOUT = (
    "Score the rows of ORC files with an exported model and write them to an ORC file: the label, where the samples "
    "hold it, file and number of each row, logit and probability. MODEL is a version's folder, or the one above: the "
    "newest version then. It says itself which columns it is given; the job file is not needed. A form `plain` runs on "
    "TensorFlow alone."
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster`."""
    parser = subparsers.add_parser("score", help="score ORC rows with an exported model", description=_ABOUT)
    parser.add_argument("model", metavar="MODEL", help="folder of an exported model")
    parser.add_argument("data", metavar="DATA.orc", nargs="+", help="files, folders or globs")
    parser.add_argument("-o", "--out", metavar="OUT.orc", required=True, help="file to write; must not exist")
    parser.add_argument(
        "--keep", metavar="COLUMN,…", default="", help="columns of the samples that are copied beside the scores"
    )
    parser.add_argument("--batch", type=int, default=4096, metavar="ROWS", help="rows at once (default: 4096)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Score; prints where the scores lie."""
    from ps_cluster.launch.pdeathsig import die_with_launcher

    die_with_launcher()
    from data.paths import expand
    from ps_cluster.cli.data.progress import Progress
    from ps_cluster.errors import UserError
    from ps_cluster.quiet import held_output, import_tensorflow

    if args.batch < 1:
        raise UserError(f"--batch: expected at least 1, found {args.batch}")
    if os.path.exists(args.out):
        raise UserError(f"{args.out}: expected a file that is not there yet, found one")
    if not os.path.isdir(os.path.dirname(os.path.abspath(args.out))):
        raise UserError(f"--out: expected a file in a folder that exists, found {args.out!r}")
    paths = expand(args.data, os.getcwd())
    import_tensorflow(gpu=False, tfra=False)
    from ps_cluster.export.opened import find_model, open_model
    from ps_cluster.export.scoring import score_files
    from ps_cluster.roles.readable import readable_errors

    keep = [name for name in args.keep.split(",") if name]
    with readable_errors(pages=False):
        with held_output():
            described, call = open_model(find_model(args.model))
        with Progress("scoring") as progress:
            rows = score_files(described, call, paths, args.out, keep, args.batch, progress.show)
    without = "tensorflow_recommenders_addons" not in sys.modules
    assert without or described.form == "tfra", "an exported model is served without it"
    print(f"{args.out}: {rows:,} rows")
    return 0
