"""Which of several ended processes a failure began with, and what is told of it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from ps_cluster.errors import RunError, UserError
from ps_cluster.launch.last_words import disk_is_full, how_it_ended, last_words
from ps_cluster.launch.processes import Ended

# What the other side of a broken connection reports: a consequence, not a cause.
_CONSEQUENCES = (
    "UnavailableError",
    "AbortedError",
    "HorovodInternalError",
    "another worker has failed",
    " waited ",
    "is gone",
    "is lost",
    "Connection reset",
    "Connection refused",
    "Connection closed",
    "Broken pipe",
    "Socket closed",
)


def cause_of(failed: Sequence[Ended]) -> Ended:
    """The process that a failure began with; the earliest one among equals."""
    return min(failed, key=_distance_from_cause)


def is_consequence(words: str) -> bool:
    """Whether a process that ended with these words only missed another one."""
    return any(sign in words for sign in _CONSEQUENCES)


def said(end: Ended) -> list[str]:
    """What a process said of its end; one that SIGKILL ended had no time to: its log ends with whatever it did last."""
    return [] if end.status == -signal.SIGKILL else last_words(end.log)


def ending(end: Ended) -> str:
    """How a process that should have gone on has ended."""
    return f"{end.name} ended before the job was done" if end.status == 0 else how_it_ended(end.name, end.status)


def error_of(cause: Ended, folder: Path, more: Sequence[str] = ()) -> UserError | RunError:
    """The error that tells of a run's end.

    folder: the run's output, whose disk may be full. more: lines that are told too.
    """
    words = said(cause)
    if cause.status == 2 and words:
        return UserError("\n".join(words))
    lines = [ending(cause), *(f"  {word}" for word in words)]
    if disk_is_full(folder):
        lines.append(f"  the disk under {folder} is full")
    lines.append(f"  log: {cause.log}")
    return RunError("\n".join([*lines, *more]))


def _distance_from_cause(end: Ended) -> int:
    """How far from the beginning of a failure a process's end probably is."""
    if end.status < 0:
        return 0
    if end.status == 2:
        return 1
    if end.name.startswith("ps"):
        return 2
    return 4 if any(is_consequence(word) for word in last_words(end.log)) else 3
