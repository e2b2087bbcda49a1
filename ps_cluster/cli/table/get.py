"""`ps-cluster table get`: what a table holds of some keys."""

from __future__ import annotations

import argparse
import contextlib

from ps_cluster.cli.table.opened import add_place, opened


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of `ps-cluster table`."""
    parser = subparsers.add_parser(
        "get",
        help="show the rows of keys",
        description="Show the rows of keys: vector, frequency, age. Prints one JSON object a key, `row` being null "
        "where there is none.",
    )
    add_place(parser)
    parser.add_argument("table", metavar="TABLE", help="name of the table")
    parser.add_argument("keys", metavar="KEY", nargs="+", type=_key, help="ids, int64")
    parser.set_defaults(run=run)


def _key(text: str) -> int:
    with contextlib.suppress(ValueError):
        if -(2**63) <= (key := int(text)) < 2**63:
            return key
    raise argparse.ArgumentTypeError(f"expected an int64, found {text!r}")


def run(args: argparse.Namespace) -> int:
    """Show; one line a key."""
    import json

    with opened(args.checkpoint) as checkpoint:
        from ps_cluster.checkpoint.rows import row_of

        for key in args.keys:
            found = row_of(checkpoint, args.table, key)
            row = None
            if found is not None:
                last_step = int(found.last_steps[0])
                row = {
                    "tier": found.row_class - 1 if found.row_class else None,
                    "frequency": float(found.frequencies[0]),
                    "last_step": last_step,
                    "age_steps": checkpoint.step - last_step,
                    "last_hour": int(found.last_hours[0]) or None,
                    "embedding": found.embeddings[0].tolist(),
                    "slots": found.slots[0].tolist(),
                }
            print(json.dumps({"key": key, "row": row}))
    return 0
