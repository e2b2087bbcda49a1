"""`ps-cluster data`: what makes, looks at and checks sample files. One module a kind."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ps_cluster.cli.data import append, convert, diff, infer, inspect, movielens, popularity, sample, synth, verify
from ps_cluster.errors import RunError

# In the order of the help text. A module has `add_parser(kinds)`, which sets `run` as its parser's default and imports
# what is slow to import only inside `run`.
KINDS = (
    infer,
    convert,
    inspect,
    diff,
    movielens,
    synth,
    append,
    popularity,
    sample,
    verify,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `data` with its kinds to the command line."""
    parser = subparsers.add_parser("data", help="make, look at and check sample files (ORC)")
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", required=True)
    for kind in KINDS:
        kind.add_parser(kinds)
    for sub in kinds.choices.values():
        sub.set_defaults(run=_telling(sub.get_default("run")))


def _telling(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """`run`, whose trouble with files becomes one line."""

    def told(args: argparse.Namespace) -> int:
        try:
            return run(args)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RunError(f"{error.filename or 'files'}: {error.strerror or error}") from error

    return told
