"""The file of events: JSON lines, each appended whole, read while it grows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ps_cluster.errors import RunError
from ps_cluster.report.events import plain


class EventLog:
    """Appends events to the file at `path`, which is made when missing; one system call a line."""

    def __init__(self, path: str):
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one line; RunError when the disk takes no more."""
        line = (json.dumps(plain(event), ensure_ascii=False, allow_nan=False) + "\n").encode()
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            raise RunError(f"{self._path}: cannot write: {error.strerror}") from error
        if written != len(line):
            raise RunError(f"{self._path}: cannot write: No space left on device")

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventTail:
    """Reads the events of a file that another process appends to, and that may not be there yet."""

    def __init__(self, path: str):
        self._path = path
        self._offset = 0
        self._line = 0

    def read(self) -> list[dict[str, Any]]:
        """The events since the call before; an unfinished last line waits. RunError for a line that is no
        event."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [self._parse(line) for line in whole.splitlines()]

    def _parse(self, line: bytes) -> dict[str, Any]:
        self._line += 1
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            found = line[:60].decode(errors="replace")
            raise RunError(f"{self._path}: line {self._line}: expected an event as JSON, found '{found}'")
        return event


def read_events(path: str) -> list[dict[str, Any]]:
    """All events of a finished run; empty when there is no such file."""
    return EventTail(path).read()
