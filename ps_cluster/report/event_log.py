"""The file of events: JSON lines, each appended whole."""

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
