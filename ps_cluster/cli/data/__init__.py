"""`ps-cluster data`: what makes, looks at and checks sample files. One module a kind."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

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
    """`run`, whose trouble with files becomes one line, and which ends in order when it is told to."""

    def told(args: argparse.Namespace) -> int:
        # A path may hold what the terminal's encoding, or any, lacks.
        getattr(sys.stdout, "reconfigure", lambda **_: None)(errors="backslashreplace")
        try:
            with _ending_in_order():
                code = run(args)
        except _Ended as ended:
            return 128 + ended.number
        except BrokenPipeError:
            raise
        except OSError as error:
            _flush()  # is it that?
            raise RunError(f"{_place(error, args)}: {error.strerror or error}") from error
        _flush()
        return code

    return told


def _flush() -> None:
    """Writes what is left to be printed. Raises `RunError` when it cannot be."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What could not be written is dropped, or Python would try again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise RunError(f"standard output: {error.strerror or error}") from error


def _place(error: OSError, args: argparse.Namespace) -> str:
    """What an error is about; a write to an open file, as on a full disk, does not tell its name."""
    name = error.filename or getattr(args, "out", None) or getattr(args, "html", None) or "standard output"
    return os.fsdecode(name) if isinstance(name, bytes) else str(name)


class _Ended(KeyboardInterrupt):
    """A signal that ends a process, where Ctrl-C would arrive: what is half written is removed."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP come as an exception inside, unless they are ignored."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise _Ended(number)

    numbers = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in numbers}
    replaced = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
