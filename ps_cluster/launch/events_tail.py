"""Events that another process appends to a file, as they come; also where it goes on in a new file."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO, Any

from ps_cluster.errors import UserError
from ps_cluster.report.event_log import AGAIN, before


class EventsTail:
    """Reads a growing file of JSON objects, one a line, and before it the one that was set aside when it had grown
    large (`ps_cluster.report.event_log`); neither need exist yet.

    new_only: what is in them now is passed over.

    UserError, here and from `read`, where one cannot be read.
    """

    def __init__(self, path: Path, new_only: bool = False) -> None:
        self._path = path
        self._position = 0
        self._file: tuple[int, int] | None = None
        """Which file the position is in; None: none has been read."""
        self._has_head = True
        """Whether what this file repeats from the one before is news, as that one was not read."""
        self._rest = b""
        if new_only:
            with contextlib.ExitStack() as stack:
                for stream in self._streams(stack)[-1:]:
                    self._begin(stream)
                    self._position = stream.seek(0, os.SEEK_END)

    def read(self) -> list[dict[str, Any]]:
        """Objects whose lines were completed since the last call.

        A line that is no JSON object is left out: a full disk or a killed writer leaves such lines.
        """
        events: list[dict[str, Any]] = []
        with contextlib.ExitStack() as stack:
            for stream in self._streams(stack):
                if self._is_another(stream):
                    self._begin(stream)
                stream.seek(self._position)
                events += self._complete(stream.read())
        return events

    def _streams(self, stack: contextlib.ExitStack) -> list[IO[bytes]]:
        """The files that may hold something new, the older one first."""
        # In this order: a file that is set aside meanwhile is then found in both places, not in none.
        now, older = _opened(stack, self._path), _opened(stack, Path(before(str(self._path))))
        if now is None or older is None or _identity(now) == _identity(older):
            alone = now or older
            if alone is not None and self._file is not None and _size(alone) >= self._position:
                self._file = _identity(alone)  # it is the same, also where a file system numbers it anew
            return [alone] if alone is not None else []
        return [older, now] if self._is_another(now) else [now]

    def _is_another(self, stream: IO[bytes]) -> bool:
        """Whether a file is not the one that the position is in. (Where three were set aside since the last look, its
        number may be that of the first; then all that is sure is that no event comes twice.)"""
        return _identity(stream) != self._file or _size(stream) < self._position

    def _begin(self, stream: IO[bytes]) -> None:
        self._has_head = self._file is None
        self._file, self._position, self._rest = _identity(stream), 0, b""

    def _complete(self, new: bytes) -> list[dict[str, Any]]:
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        events = []
        for line in lines:
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict) and (self._has_head or AGAIN not in event):
                events.append(event)
        return events


def _opened(stack: contextlib.ExitStack, path: Path) -> IO[bytes] | None:
    try:
        return stack.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: expected a readable file of events, found: {error.strerror}") from None


def _size(stream: IO[bytes]) -> int:
    return os.fstat(stream.fileno()).st_size


def _identity(stream: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(stream.fileno())
    return found.st_dev, found.st_ino
