"""`ps-cluster table`: what the embedding tables of a checkpoint hold."""

from __future__ import annotations

import argparse

from ps_cluster.cli.table import get, histogram, ls, top

COMMANDS = (ls, get, top, histogram)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to those of `ps-cluster`."""
    parser = subparsers.add_parser(
        "table",
        help="look into the embedding tables of a checkpoint",
        description="Look into the embedding tables of a checkpoint; files are read in blocks.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
