"""`ps-cluster data diff`: where two sets of sample files differ."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING

from ps_cluster.cli.data.progress import Progress
from ps_cluster.errors import UserError

if TYPE_CHECKING:
    from data.diff.compare import Difference, Place

_DIFF = (
    "Compares two sets of sample files row by row. With --key, rows of equal key belong together and are compared "
    "column by column; without, the sets are compared as rows in any order. Ends with 0 when they are equal, 1 when "
    "they differ, 2 for wrong input. Needs little memory; sets that are not sorted by the key go through temporary "
    "files (TMPDIR)."
)
_VALUE_CHARACTERS = 60


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    diff = kinds.add_parser("diff", help="where two sets of sample files differ", description=_DIFF)
    for name in ("a", "b"):
        diff.add_argument(name, metavar=name.upper(), help="ORC file, folder, pattern or manifest; may be an address")
    diff.add_argument("--key", metavar="COL,COL", help="columns that tell which rows belong together")
    diff.add_argument("--examples", type=int, default=3, metavar="N", help="shown of each kind (default: 3)")
    diff.add_argument("--json", action="store_true", help="print JSON")
    diff.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.diff.compare import diff
    from data.errors import DataError
    from data.paths import expand

    key = [] if args.key is None else [name.strip() for name in args.key.split(",")]
    if "" in key:
        raise UserError(f"--key: expected names of columns with commas between, found {args.key!r}")
    if args.examples < 0:
        raise UserError(f"--examples: expected at least 0, found {args.examples}")
    try:
        a, b = (_short(expand([side], os.getcwd())) for side in (args.a, args.b))
        with Progress("diff") as progress:
            found = diff(a, b, key, args.examples, progress.show)
    except DataError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        if error.filename is None:  # of a file without a name
            error.filename = tempfile.gettempdir()
        raise
    print(json.dumps({"equal": found.equal, **asdict(found)}, indent=2, default=str) if args.json else _text(found))
    return 0 if found.equal else 1


def _short(paths: list[str]) -> list[str]:
    here = os.getcwd() + os.sep
    return [path.removeprefix(here) for path in paths]


def _text(found: Difference) -> str:
    by = f"by {', '.join(found.key)}" if found.key else "as whole rows in any order"
    sides = ", ".join(
        f"{side}: {rows:,} row{'s' * (rows != 1)}" for side, rows in (("A", found.rows_a), ("B", found.rows_b))
    )
    lines = [f"{sides}, compared {by}"]
    lines += [f"{line}" for line in [*found.schema, *found.notes]]
    counts = [f"equal {found.same:,}"]
    if found.key:
        counts.append(f"changed {found.changed:,}")
    lines.append(", ".join([*counts, f"only in A {found.only_a:,}", f"only in B {found.only_b:,}"]))
    for name, rows in found.columns.items():
        if rows:
            lines.append(f"column {name}: differs in {rows:,} row{'' if rows == 1 else 's'}")
        for change in found.changes.get(name, ()):
            places = f"({_place(change.place_a)}; {_place(change.place_b)})"
            lines.append(f"  {_values(change.key)}: {_value(change.a)} in A, {_value(change.b)} in B {places}")
    for side, lone in (("A", found.lone_a), ("B", found.lone_b)):
        lines += [f"only in {side}: {_values(row.values)} ({_place(row.place)})" for row in lone]
    lines.append("equal" if found.equal else "different")
    return "\n".join(lines)


def _place(place: Place) -> str:
    return f"{place.path} row {place.row:,}"


def _values(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in values.items())


def _value(value: object) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"
