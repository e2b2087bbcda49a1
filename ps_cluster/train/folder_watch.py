"""Worker 0's look at a followed folder: new files, each with its footer checked, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from data.errors import DataError
from data.follow import in_folder, name_hash, new_files
from data.read.footers import read_footer, spec_problems
from data.read.read_spec import ReadSpec

_UNLISTED_SECONDS = 300.0  # that a folder may be away, a network file system for instance


@dataclass(frozen=True)
class Appeared:
    """A file that is new in the folder. problem: why it cannot be trained; empty when it can."""

    name: str
    key: int
    rows: int
    problem: str


class FolderWatch:
    """Looks every `poll_seconds` from `start` on. Close it.

    A file that cannot be read may still be on its way: it counts as wrong once it is as long as at the look before.
    """

    def __init__(self, folder: str, spec: ReadSpec, poll_seconds: float, known: Iterable[int]):
        """Args:
        spec: how files are read, whatever its paths.
        known: `name_hash` of each file that has been seen before.
        """
        self._folder = folder
        self._spec = spec
        self._poll_seconds = poll_seconds
        self._known = set(known)
        self._lock = threading.Lock()
        self._appeared: list[Appeared] = []
        self._doubtful: dict[str, int] = {}  # bytes by name
        self._failing: tuple[float, str] | None = None
        self._last_new = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="folder watch", daemon=True)

    def start(self) -> None:
        """Looks for the first time, and then again and again in a thread."""
        self._look()
        self._thread.start()

    @property
    def has_new(self) -> bool:
        """Whether `take` would give something, or raise."""
        return bool(self._appeared) or self._gone() is not None

    @property
    def idle_seconds(self) -> float:
        """Since a file was new last, or the start, or the folder could not be listed: who could tell that none came."""
        return time.monotonic() - self._last_new

    def take(self, most: int) -> list[Appeared]:
        """The first `most` new files that have not been taken.

        Raises:
          DataError: the folder could not be listed for minutes.
        """
        gone = self._gone()
        if gone is not None:
            raise DataError(gone)
        with self._lock:
            taken, self._appeared = self._appeared[:most], self._appeared[most:]
        return taken

    def close(self) -> None:
        """May be called again."""
        self._over.set()

    def _gone(self) -> str | None:
        failing = self._failing
        return failing[1] if failing is not None and time.monotonic() - failing[0] > _UNLISTED_SECONDS else None

    def _run(self) -> None:
        while not self._over.wait(self._poll_seconds):
            self._look()

    def _look(self) -> None:
        try:
            found = new_files(self._folder, self._known)
            self._failing = None
        except DataError as error:
            self._last_new = time.monotonic()
            self._failing = self._failing or (self._last_new, str(error))
            return
        doubtful, self._doubtful = self._doubtful, {}
        for name, size in found:
            appeared = self._checked(name)
            if appeared.problem and doubtful.get(name) != size:
                self._doubtful[name] = size
                continue
            with self._lock:
                self._known.add(name_hash(name))
                self._appeared.append(appeared)
                self._last_new = time.monotonic()
            if self._over.is_set():
                return

    def _checked(self, name: str) -> Appeared:
        path = in_folder(self._folder, name)
        try:
            footer = read_footer(path)
        except DataError as error:
            return Appeared(name, 0, 0, str(error))
        problems = spec_problems(footer, self._spec)
        return Appeared(name, footer.file_key, sum(stripe.rows for stripe in footer.stripes), "; ".join(problems))
