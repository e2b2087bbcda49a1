"""Where a running harness lies on this machine, that others find it, and what one that was killed has left."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from pathlib import Path
from typing import IO

from ps_cluster.errors import UserError
from tests.pods import memory

_ALL = Path("/run/ps-cluster-pods")


def place_of(folder: Path) -> Path:
    """Of the harness whose logs and volumes lie in `folder`."""
    return _ALL / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]


class RunFolder:
    """Held while a harness runs. `scratch`: for what ends with it."""

    def __init__(self, folder: Path):
        """Raises:
        UserError: another one runs with this folder.
        """
        clean_up()
        self.place = place_of(folder)
        self.scratch = folder.resolve() / "scratch"
        self.place.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.place)
        if self._lock is None:
            raise UserError(f"--folder: expected one that no other run uses, found {folder}")
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        (self.place / "scratch").write_text(str(self.scratch))

    def memory(self) -> memory.Memory:
        """Limits of this run's containers."""
        made = memory.Memory(self.place.name)
        if made.folder is not None:
            (self.place / "groups").write_text(str(made.folder))
        return made

    def close(self) -> None:
        _remove(self.place)
        assert self._lock is not None
        self._lock.close()


def clean_up() -> None:
    """Removes what harnesses have left that were killed; their processes and networks have ended with them."""
    if not _ALL.exists():
        return
    for place in _ALL.iterdir():
        lock = _locked(place)
        if lock is not None:
            _remove(place)
            lock.close()


def _remove(place: Path) -> None:
    with contextlib.suppress(OSError):
        memory.remove_group(Path((place / "groups").read_text()))
    with contextlib.suppress(OSError):
        shutil.rmtree(Path((place / "scratch").read_text()))
    shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):
        _ALL.rmdir()


def _locked(place: Path) -> IO[str] | None:
    try:
        file = (place / "lock").open("a")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    if not os.path.exists(place / "lock"):  # it was removed between the two
        file.close()
        return None
    return file
