"""`ps-cluster table top`: the most frequent keys of a table."""

from __future__ import annotations

import argparse

from ps_cluster.cli.table.opened import add_place, opened


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster table`."""
    parser = subparsers.add_parser(
        "top", help="show the most frequent keys", description="Show the most frequent keys of a table."
    )
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="name of the table")
    parser.add_argument("-n", "--number", metavar="N", type=_number, default=20, help="how many (default: %(default)s)")
    parser.set_defaults(run=run)


def _number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, found {text}")
    return number


def run(args: argparse.Namespace) -> int:
    """Show; one line a key."""
    with opened(args.checkpoint) as checkpoint:
        import numpy as np

        from ps_cluster.checkpoint.rows import rows_of
        from ps_cluster.report.text import count

        number = args.number
        best = np.zeros([0, 4])  # frequency, last step, dim, position in keys
        keys = np.zeros(0, np.int64)
        for rows in rows_of(checkpoint, args.table):
            dim = np.full(len(rows.keys), rows.embeddings.shape[1], np.float64)
            both = np.concatenate([keys, rows.keys])
            columns = [np.stack([rows.frequencies, rows.last_steps, dim, dim], axis=1)]
            figures = np.concatenate([best, *columns])
            # Of equal frequencies the smaller key comes first.
            order = np.lexsort([both, -figures[:, 0]])[:number]
            best, keys = figures[order], both[order]
        print(f"{'key':>20}  {'frequency':>12}  {'last step':>12}  {'age (steps)':>12}  {'dim':>5}")
        for key, (frequency, last_step, dim, _) in zip(keys.tolist(), best.tolist()):
            age = checkpoint.step - int(last_step)
            shown = count(frequency) if frequency == int(frequency) else f"{frequency:,.2f}"
            print(f"{key:>20}  {shown:>12}  {count(last_step):>12}  {count(age):>12}  {int(dim):>5}")
    return 0
