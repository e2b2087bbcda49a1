"""The file of events: JSON lines, each appended whole. Where it has grown large, it goes on in a new one.

Of a training without end there are two files at most: the one that is written to, and the one before (`before`). The
newer one begins with the last event of each kind from the older, marked `again`, but for steps and phases: so it tells
by itself what has been started. `ps_cluster.launch.events_tail` reads both as one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from ps_cluster.errors import RunError
from ps_cluster.report.events import plain

LIMIT_BYTES = 32 << 20
"""Of a file that another one follows: some 20,000 windows of steps."""

AGAIN = "again"
"""Field of an event that a file's head repeats from the one before."""

_NOT_REPEATED = frozenset({"step", "phase"})  # they come all the time


def before(path: str) -> str:
    """Where the file of events goes when another one follows it."""
    return f"{path}.1"


class EventLog:
    """Appends events to the file at `path`, which is made when missing; one system call a line. RunError when it cannot
    be made or written.

    limit_bytes: of the file; only one process at a time may give one, while others append. None: it only grows.
    """

    def __init__(self, path: str, limit_bytes: int | None = None):
        self._path = path
        self._limit_bytes = limit_bytes
        self._head_bytes = 0
        self._descriptor = -1
        try:
            if limit_bytes is not None and not os.path.exists(path):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(before(path), path)  # a process has ended just when it set the file aside
            self._descriptor = self._opened()
            if _ends_within_a_line(path):
                os.write(self._descriptor, b"\n")  # a full disk has cut it: what comes is not to be lost with it
        except OSError as error:
            raise RunError(f"{path}: cannot write: {error.strerror}") from error

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one line; RunError when the disk takes no more."""
        line = _line(plain(event))
        try:
            written = os.write(self._descriptor, line)
            if self._is_full():
                self._set_aside()
        except OSError as error:
            raise RunError(f"{self._path}: cannot write: {error.strerror}") from error
        if written != len(line):
            raise RunError(f"{self._path}: cannot write: No space left on device")

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _is_full(self) -> bool:
        if self._limit_bytes is None:
            return False
        return os.fstat(self._descriptor).st_size >= self._limit_bytes + self._head_bytes

    def _set_aside(self) -> None:
        following = f"{self._path}.next"
        head = _head_of(self._path)
        with open(following, "wb") as file:
            file.write(head)
        os.rename(self._path, before(self._path))
        os.rename(following, self._path)
        self._head_bytes = len(head)
        self.close()
        self._descriptor = self._opened()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ends_within_a_line(path: str) -> bool:
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:  # also a device, which has no end
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _head_of(path: str) -> bytes:
    """What the file after this one begins with."""
    last: dict[str, dict[str, Any]] = {}
    with open(path, "rb") as lines:
        for line in lines:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue  # a killed process left it
            if isinstance(event, dict) and event.get("event") not in _NOT_REPEATED:
                last.pop(str(event.get("event")), None)  # in the order in which they came last
                last[str(event.get("event"))] = {**event, AGAIN: True}
    return b"".join(map(_line, last.values()))


def _line(event: Mapping[str, Any]) -> bytes:
    return (json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n").encode()
