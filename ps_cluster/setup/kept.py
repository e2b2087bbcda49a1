"""Files that every checkout of a user shares, each made once and whole or absent."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def wheels_folder() -> Path:
    """`~/.cache/ps-cluster/wheels`, or the same below XDG_CACHE_HOME."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache, "ps-cluster", "wheels").absolute()


def kept_wheel(key: str) -> Path | None:
    """The wheel kept under this key, or None."""
    wheels = sorted((wheels_folder() / key).glob("*.whl"))
    return wheels[0] if wheels else None


@contextmanager
def keeping(key: str) -> Iterator[Path]:
    """Gives an empty folder whose content is kept under `key` when the block ends well.

    The caller holds `only_one` for the key, so that two processes do not make the same thing twice.
    """
    folder = wheels_folder()
    folder.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{key}.", suffix=".part", dir=folder))
    try:
        yield part
        for path in part.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        part.chmod(0o755)
        shutil.rmtree(folder / key, ignore_errors=True)
        part.rename(folder / key)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Holds the lock file at `path`; waits, and says so, while another process holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another set-up that holds {path}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
