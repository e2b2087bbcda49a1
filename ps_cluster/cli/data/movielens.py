"""`ps-cluster data movielens`: real ratings as sample files."""

from __future__ import annotations

import argparse
import os

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import RunError, UserError

_MOVIELENS = (
    "Writes MovieLens-100k as train.orc and test.orc. Features know events of strictly earlier times only. "
    "The ratings come from the PyPI package recbole, downloaded once with pip."
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    movielens = kinds.add_parser(
        "movielens", help="MovieLens-100k: real ratings, label rating >= 4", description=_MOVIELENS
    )
    movielens.add_argument("out", metavar="OUT", help="folder for train.orc and test.orc")
    movielens.add_argument(
        "--split",
        choices=("user", "time"),
        default="user",
        help="test rows: each user's last ratings, or the last of all by time (default: user)",
    )
    movielens.add_argument("--test-share", type=float, default=0.1, help="share of test rows (default: 0.1)")
    movielens.add_argument(
        "--wheel", metavar="FILE", help="recbole wheel, or folder with its ml-100k files (default: download)"
    )
    movielens.add_argument(
        "--cache",
        metavar="FOLDER",
        default=os.path.join(os.path.expanduser("~"), ".cache", "ps-cluster"),
        help="where the downloaded wheel is kept (default: ~/.cache/ps-cluster)",
    )
    movielens.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.examples.movielens import FetchError, fetch_wheel, prepare

    if not 0 < args.test_share < 1:
        raise UserError(f"--test-share: expected a number above 0 and below 1, found {args.test_share}")
    try:
        source = args.wheel or fetch_wheel(args.cache)
    except FetchError as error:
        raise RunError(str(error)) from error
    with Progress("MovieLens-100k") as progress:
        summary = prepare(source, args.out, args.split, args.test_share, progress.show)
    unseen = summary.test_unseen_user_share
    print(f"train  {summary.train_path}  {summary.train_rows:,} rows, {summary.train_like_share:.1%} liked")
    print(f"test   {summary.test_path}  {summary.test_rows:,} rows, {summary.test_like_share:.1%} liked")
    print(f"       {summary.users:,} users, {summary.items:,} items; {unseen:.0%} of test rows by unseen users")
    return 0
