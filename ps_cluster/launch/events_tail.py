"""Events that another process appends to a file, as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class EventsTail:
    """Reads a growing file of JSON objects, one a line; the file may not exist yet.

    new_only: what is in it now is passed over.
    """

    def __init__(self, path: Path, new_only: bool = False) -> None:
        self._path = path
        self._position = path.stat().st_size if new_only and path.exists() else 0
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """Objects whose lines were completed since the last call.

        A line that is no JSON object is left out: a full disk or a killed writer leaves such lines.
        """
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._position)
                new = stream.read()
        except FileNotFoundError:
            return []
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        events = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events
