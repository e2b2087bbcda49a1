"""One training at a time writes to a folder of checkpoints."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator

from ps_cluster.checkpoint.storage import is_remote
from ps_cluster.errors import UserError

_FILE = ".writer"
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.2


@contextlib.contextmanager
def sole_writer(folder: str) -> Iterator[None]:
    """Holds a local folder, which is made when missing, against every other training; of an address nothing is known.

    The hold is a lock that ends with this process, however that ends. One that was killed a moment ago is waited for.

    Raises:
      UserError: another training holds it, or the folder cannot be made or written.
    """
    if is_remote(folder):
        yield
        return
    try:
        os.makedirs(folder, exist_ok=True)
        lock = os.open(os.path.join(folder, _FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(
            f"checkpoint.folder: expected a folder that can be written, found {folder}: {error.strerror}"
        ) from None
    try:
        _take(lock, folder)
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.truncate(lock, 0)
            os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)


def _take(lock: int, folder: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                owner = os.pread(lock, 300, 0).decode(errors="replace").strip() or "another process"
                raise UserError(
                    "checkpoint.folder: expected a folder that no other training writes its checkpoints to, found "
                    f"{owner} writing to {folder}"
                ) from None
        time.sleep(_POLL_SECONDS)
