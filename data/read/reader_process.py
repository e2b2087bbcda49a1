"""The life of a reader process, seen from the trainer: start, what it died of, stop."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from typing import IO, Any

from data.errors import DataError
from data.read.arrow_server import Request
from data.read.batches import Shard

_SOCKET_PATH_MAX_BYTES = 107
_SOCKET_NAME = "s"
_STOP_SECONDS = 3.0
_STDERR_SHOWN_BYTES = 2_000


class ReaderProcess:
    """One `python -m data.read.arrow_server`. It ends with `stop`, with this process, or when reading fails."""

    def __init__(self, shard: Shard, threads: int):
        self._folder = _socket_folder()
        self._status: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (lives as long as we do)
        self._stderr: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.endpoint = f"unix://{self._folder}/{_SOCKET_NAME}"
        self.key = secrets.randbits(62)
        request = Request(shard, threads, os.getpid(), os.getcwd(), self._folder, self.key)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            # Listening before the process starts: a client may connect at once and nobody waits for a
            # "ready". Our copy is closed again, so that connecting to a dead reader fails instead of waiting.
            listener.bind(f"{self._folder}/{_SOCKET_NAME}")
            listener.listen(8)
            descriptors = (listener.fileno(), self._status.fileno())
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "data.read.arrow_server", *map(str, descriptors)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=descriptors,
                # The folder of this very package comes first in the path, whatever the user's folder holds.
                cwd=Path(__file__).resolve().parents[2],
                # Ctrl-C goes to the trainer, which then stops us between two messages.
                start_new_session=True,
            )
        self._finalizer = weakref.finalize(
            self, _end, self._process, self._folder, self._status, self._stderr, os.getpid()
        )
        with contextlib.suppress(BrokenPipeError):  # died at the start: `failure` tells
            assert self._process.stdin is not None
            self._process.stdin.write(request.to_json().encode("ascii") + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """Process id of the reader."""
        return self._process.pid

    def failure(self, wait_seconds: float) -> Exception | None:
        """Why the reader failed; None when it has not failed within `wait_seconds`, or was stopped by us.

        A `DataError` when the samples are wrong, a `RuntimeError` when the reader itself failed or was
        killed.
        """
        deadline = time.monotonic() + wait_seconds
        while self._finalizer.alive:
            code = self._process.poll()
            status = self._read_status()
            if "failed" in status:
                kind = DataError if status["failed"] == "data" else RuntimeError
                text = status["text"]
                return kind(text if kind is DataError else f"the reader process failed: {text}")
            if code is not None:
                where = f"while reading {status['reading']}" if "reading" in status else "before it read anything"
                return RuntimeError(f"the reader process died: {_how(code)} {where}{self._last_words()}")
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        return None

    def stop(self) -> None:
        """Ends the process between two messages and removes its socket. May be called again."""
        self._finalizer()

    def _read_status(self) -> dict[str, Any]:
        try:
            return json.loads(os.pread(self._status.fileno(), 2**20, 0))
        except ValueError:
            return {}  # nothing written yet, or being written just now

    def _last_words(self) -> str:
        size = os.fstat(self._stderr.fileno()).st_size
        text = os.pread(self._stderr.fileno(), _STDERR_SHOWN_BYTES, max(0, size - _STDERR_SHOWN_BYTES))
        words = text.decode(errors="replace").strip()
        return f"; its last words:\n{words}" if words else ""


def _socket_folder() -> str:
    """A private folder whose path is short enough for a socket in it."""
    folders = [tempfile.gettempdir(), "/tmp"]
    for parent in folders:
        if len(os.fsencode(parent)) + len("/reader-xxxxxxxx/") + len(_SOCKET_NAME) <= _SOCKET_PATH_MAX_BYTES:
            return tempfile.mkdtemp(prefix="reader-", dir=parent)
    raise RuntimeError(f"no folder with a path short enough for a socket: {', '.join(folders)}")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"


def _end(process: subprocess.Popen[bytes], folder: str, status: IO[bytes], stderr: IO[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked copy of the trainer is ending, not the trainer
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        # It asks to be ended gently only once it has something to send.
        process.wait(_STOP_SECONDS if os.fstat(status.fileno()).st_size else 0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    status.close()
    stderr.close()
