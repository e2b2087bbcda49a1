"""`ps-cluster data`: makes sample files to train on."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

from ps_cluster.errors import RunError, UserError

SILENCE_SECONDS = 10.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `data` with its kinds to the command line."""
    parser = subparsers.add_parser("data", help="make sample files (ORC) to train on")
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)

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
    movielens.set_defaults(run=run, make=_make_movielens)

    synth = kinds.add_parser(
        "synth", help="synthetic click log of any size, best reachable AUC known", description=_SYNTH
    )
    synth.add_argument("out", metavar="OUT", help="folder for the log; must not exist or be empty")
    synth.add_argument("--rows", type=int, required=True, help="rows of training and test together")
    synth.add_argument("--seed", type=int, default=0, help="same seed: same files (default: 0)")
    synth.add_argument("--features", type=int, default=16, help="number of id columns (default: 16)")
    synth.add_argument(
        "--cardinality",
        metavar="COLUMN=N",
        action="append",
        default=[],
        help="number of values of an id column; may be given again",
    )
    synth.add_argument("--history", type=int, default=30, help="most items in the array columns (default: 30)")
    synth.add_argument("--files", type=int, default=4, help="number of training files (default: 4)")
    synth.add_argument("--test-share", type=float, default=0.1, help="share of test rows (default: 0.1)")
    synth.add_argument("--click-share", type=float, default=0.2, help="share of clicks (default: 0.2)")
    synth.add_argument("--days", type=float, default=14.0, help="time the log spans (default: 14)")
    synth.add_argument("--with-logit", action="store_true", help="add the column planted_logit")
    synth.add_argument("--overwrite", action="store_true", help="replace an earlier log in OUT")
    synth.set_defaults(run=run, make=_make_synth)


def run(args: argparse.Namespace) -> int:
    """Makes the files and says what they are."""
    try:
        code: int = args.make(args)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RunError(f"{error.filename or args.out}: {error.strerror or error}") from error
    return code


_MOVIELENS = (
    "Writes MovieLens-100k as train.orc and test.orc. Features know events of strictly earlier times only. "
    "The ratings come from the PyPI package recbole, downloaded once with pip."
)
_SYNTH = (
    "Writes a click log with Zipf ids, growing histories and new items over time, in constant memory. The "
    "logit behind the clicks is planted, so the best AUC that any ranker can reach is known."
)


def _make_movielens(args: argparse.Namespace) -> int:
    from data.movielens import FetchError, fetch_wheel, prepare

    if not 0 < args.test_share < 1:
        raise UserError(f"--test-share: expected a number above 0 and below 1, found {args.test_share}")
    try:
        source = args.wheel or fetch_wheel(args.cache)
    except FetchError as error:
        raise RunError(str(error)) from error
    with _Progress("MovieLens-100k") as progress:
        summary = prepare(source, args.out, args.split, args.test_share, progress.show)
    unseen = summary.test_unseen_user_share
    print(f"train  {summary.train_path}  {summary.train_rows:,} rows, {summary.train_like_share:.1%} liked")
    print(f"test   {summary.test_path}  {summary.test_rows:,} rows, {summary.test_like_share:.1%} liked")
    print(f"       {summary.users:,} users, {summary.items:,} items; {unseen:.0%} of test rows by unseen users")
    return 0


def _make_synth(args: argparse.Namespace) -> int:
    from data.synth import generate

    with _Progress("synthetic log") as progress:
        summary = generate(
            args.out,
            rows=args.rows,
            seed=args.seed,
            features=args.features,
            cardinalities=_cardinalities(args.cardinality),
            history=args.history,
            files=args.files,
            test_share=args.test_share,
            click_share=args.click_share,
            days=args.days,
            with_logit=args.with_logit,
            overwrite=args.overwrite,
            progress=progress.show,
        )
    for name, files, rows, auc in (
        ("train", summary.train_files, summary.train_rows, summary.best_auc_train),
        ("test", summary.test_files, summary.test_rows, summary.best_auc_test),
    ):
        paths = os.path.join(args.out, f"{name}-*.orc")
        best = "only one class" if auc is None else f"best AUC {auc:.4f}"
        print(f"{name:5}  {paths}  {rows:,} rows in {len(files)} file{'s' * (len(files) > 1)}, {best}")
    print(f"       {len(summary.cardinalities)} id columns, {summary.click_share:.1%} clicks")
    return 0


def _cardinalities(texts: list[str]) -> dict[str, int]:
    result = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not (name and number.isascii() and number.isdigit()):
            raise UserError(f"--cardinality: expected COLUMN=N, found {text!r}")
        result[name] = int(number)
    return result


class _Progress:
    """Rows done on standard error: one line that moves on a terminal, a line every few seconds elsewhere."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic):
        self._title = title
        self._clock = clock
        self._moving = sys.stderr.isatty()
        self._start = self._last = clock()
        self._shown = False

    def show(self, done: int, total: int) -> None:
        now = self._clock()
        if now - self._last < (0.2 if self._moving else SILENCE_SECONDS):
            return
        self._last = now
        rate = done / max(now - self._start, 1e-9)
        text = f"{self._title}: {done:,} of {total:,} rows, {rate:,.0f} rows/s"
        print(f"\r\x1b[K{text}" if self._moving else text, end="" if self._moving else "\n", file=sys.stderr)
        sys.stderr.flush()
        self._shown = True

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._moving and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
