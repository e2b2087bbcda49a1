"""Memory of what set-up has done: for each step a key made of all that went into it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


class Record:
    """Keys of the finished steps, in a file that is written whole after each step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            content = {}
        self._keys: dict[str, str] = content if isinstance(content, dict) else {}

    @property
    def exists(self) -> bool:
        """Whether a set-up has finished any step here."""
        return self._path.exists()

    def get(self, step: str) -> str | None:
        """Key with which this step was last finished."""
        return self._keys.get(step)

    def finished(self, step: str, key: str) -> None:
        """Writes down that the step is done."""
        self._keys[step] = key
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self._keys, indent=2) + "\n", encoding="utf-8")
        part.rename(self._path)

    def forget(self) -> None:
        """Nothing is done any more."""
        self._path.unlink(missing_ok=True)
        self._keys = {}


def digest(*parts: str | bytes) -> str:
    """Hash of a list of texts; their lengths are hashed too, so that no two lists run together."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()
