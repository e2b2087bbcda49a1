"""`ps-cluster data synth`: a synthetic click log."""

from __future__ import annotations

import argparse
import os

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import UserError

_SYNTH = (
    "Writes a click log with Zipf ids, growing histories and new items over time, in constant memory. The "
    "logit behind the clicks is planted, so the best AUC that any ranker can reach is known."
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
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
    synth.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.examples.synth import generate

    with Progress("synthetic log") as progress:
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
