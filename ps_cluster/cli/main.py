"""The command `ps-cluster`: picks the subcommand and turns errors into messages and exit codes."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence

from data.errors import DataError
from ops.library import LibraryError
from ps_cluster import __version__
from ps_cluster.cli import (
    apply,
    check,
    cluster,
    data,
    doctor,
    evaluate,
    export,
    plan,
    ps,
    schema,
    score,
    status,
    table,
    trace,
    train,
    worker,
)
from ps_cluster.errors import RESTART, RestartMe, RunError, UserError

# In the order of the help text. A module has `add_parser(subparsers)`, which sets `run` as its parser's
# default; it imports what is slow to import only inside `run`.
COMMANDS = (
    *(data, plan, train, ps, worker, *cluster.COMMANDS, status, doctor, trace),
    *(evaluate, export, apply, score, table, schema, check),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code: 0 done, 1 failed run, 2 wrong input, 75 stopped where it can go on, 130
    interrupted."""
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (UserError, DataError) as error:
        print(error, file=sys.stderr)
        return 2
    except RestartMe as error:
        print(error, file=sys.stderr)
        return RESTART
    except (RunError, LibraryError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        if not _output_is_closed():
            raise
        return 141  # as a process that SIGPIPE ended


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        prog="ps-cluster", description="Train and ship recommender rankers on TensorFlow parameter servers."
    )
    top.add_argument("--version", action="version", version=f"ps-cluster {__version__}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return top


def _output_is_closed() -> bool:
    """Whether the reader of standard output is gone; if so, what is still to be written is dropped."""
    output = sys.stdout.fileno()
    poll = select.poll()
    poll.register(output, 0)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True
