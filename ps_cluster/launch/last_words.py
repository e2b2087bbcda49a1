"""Why a process ended, read from its exit status and from the end of its log."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

_READ_BYTES = 256 * 1024
_MOST_LINES = 12
ERROR_MARK = "error: "
"""A process that knows why it fails writes this before its message, as the last thing in its log."""
_TRACEBACK = "Traceback (most recent call last):"
# glog and absl ("2024-01-01 10:00:00.1: W file.cc:1]", "I0000 00:00:1 file.cc:1]", "WARNING: All log …") and
# Python's logging ("WARNING:tensorflow:"): written whether something fails or not. Fatal lines are not there.
_NOISE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] |[IWE]\d{4} \d\d:\d\d|(DEBUG|INFO|WARNING):)")
_NATIVE_DEATH = re.compile(
    r"^(Fatal Python error: |terminate called |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: F |F\d{4} \d\d:\d\d)"
)


def how_it_ended(name: str, status: int) -> str:
    """One sentence about an exit status as `subprocess` gives it: negative for a signal."""
    if status >= 0:
        return f"{name} ended with exit status {status}"
    try:
        number = signal.Signals(-status).name
    except ValueError:
        number = f"signal {-status}"
    memory = " (the kernel does that when memory runs out)" if number == "SIGKILL" else ""
    return f"{name} was killed by {number}{memory}"


def last_words(log: Path) -> list[str]:
    """The lines at the end of a log that tell why its process ended; none when there are none.

    These are the message after the process's own `ERROR_MARK`. After a Python traceback they are the lines of the
    exception that ended it, not its frames. After a native crash they start where the crash reports itself. Otherwise
    they are the last lines, start-up noise left out.
    """
    try:
        with log.open("rb") as stream:
            size_bytes = stream.seek(0, 2)
            stream.seek(max(0, size_bytes - _READ_BYTES))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    lines = [line.rstrip() for line in text.splitlines()]
    for start in range(len(lines) - 1, -1, -1):
        if lines[start].startswith(ERROR_MARK):
            message = [lines[start][len(ERROR_MARK) :], *lines[start + 1 :]]
            return [line for line in message if line and not _NOISE.match(line)]  # all of it, however long
        if _NATIVE_DEATH.match(lines[start]):
            return _some(lines[start:])
        if lines[start].endswith(_TRACEBACK):
            exception = _after_frames(lines[start + 1 :], lines[start][: -len(_TRACEBACK)])
            if exception:
                return _some(exception)
    lines = [line for line in lines if line and not _NOISE.match(line)]
    return lines[-_MOST_LINES:]


def drained_line(log: Path) -> str | None:
    """What a process that was drained says of it; None when it does not."""
    lines = [line for line in last_words(log) if line.startswith("drained ")]
    return lines[-1] if lines else None


def disk_is_full(folder: Path) -> bool:
    """Whether the disk under `folder` has no room left, so that a log may miss its end."""
    try:
        return shutil.disk_usage(folder).free == 0
    except OSError:
        return False


def _after_frames(lines: list[str], indent: str) -> list[str]:
    """What follows the frames of a traceback: they are indented deeper than the line above them."""
    for number, line in enumerate(lines):
        body = line[len(indent) :]
        if body and not body.startswith((" ", "\t")):
            return [line for line in lines[number:] if not _NOISE.match(line)]
    return []


def _some(lines: list[str]) -> list[str]:
    lines = [line for line in lines if line]
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], f"… ({len(lines) - _MOST_LINES + 1} more lines)"]
