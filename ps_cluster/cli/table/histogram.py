"""`ps-cluster table histogram`: how often the keys of a table occur."""

from __future__ import annotations

import argparse

from ps_cluster.cli.table.opened import add_place, opened

_BAR = 40


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster table`."""
    parser = subparsers.add_parser(
        "histogram",
        help="show how often keys occur",
        description="Show how many keys of a table occur how often, in buckets of powers of two; keys that are only "
        "counted, and have no row, in a column of their own.",
    )
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="name of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Show; one line a bucket."""
    with opened(args.checkpoint) as checkpoint:
        import numpy as np

        from ps_cluster.checkpoint.rows import rows_of
        from ps_cluster.report.text import count

        # Bucket 0 is below 1, bucket k from 2^(k-1) to below 2^k.
        buckets = np.zeros([2, 34], np.int64)
        for rows in rows_of(checkpoint, args.table):
            exponents = np.frexp(np.maximum(rows.frequencies, 0.5))[1]
            buckets[int(rows.row_class == 0)] += np.bincount(exponents, minlength=34)[:34]
        used = np.flatnonzero(buckets.sum(axis=0))
        most = max(int(buckets.sum(axis=0).max()), 1)
        print(f"{'frequency':>25}  {'rows':>14}  {'only counted':>14}")
        for bucket in range(int(used[0]), int(used[-1]) + 1) if len(used) else ():
            low, high = (0, 0) if bucket == 0 else (1 << (bucket - 1), (1 << bucket) - 1)
            label = "below 1" if bucket == 0 else count(low) if low == high else f"{count(low)} to {count(high)}"
            with_row, counted = buckets[:, bucket].tolist()
            bar = "#" * -(-(with_row + counted) * _BAR // most)
            print(f"{label:>25}  {count(with_row):>14}  {count(counted):>14}  {bar}".rstrip())
    return 0
