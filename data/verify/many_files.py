"""Verifying many files by several processes; a file that ends its process is a problem of that file only."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import pyarrow as pa

from data import files
from data.errors import DataError
from data.paths import MANIFEST, expand, read_manifest
from data.verify.one_file import FileReport, verify_file

PATIENCE_SECONDS = 600.0
_SLOWEST_BYTES_PER_SECOND = 1 << 20
_REMOTE_BYTES = 1 << 30


@dataclass(frozen=True)
class Listed:
    """A file to verify."""

    path: str
    manifest: Mapping[str, Any] | None = None
    """What a manifest says of it."""


def list_files(paths: Sequence[str], base: str) -> list[Listed]:
    """The files that `paths` name, as `data.paths.expand` says, but with what manifests say of them, and also those of
    a manifest that are missing or changed. Raises `DataError`."""
    found: dict[str, Listed] = {}
    for path in paths:
        manifest = _manifest(path if files.is_address(path) else os.path.join(base, path))
        if manifest is None:
            listed = [Listed(one) for one in expand([path], base)]
        else:
            folder = manifest[: -len(MANIFEST)]
            listed = [Listed(folder + item["name"], item) for item in read_manifest(manifest)["files"]]
        for one in listed:
            if one.manifest is not None or one.path not in found:
                found[one.path] = one
    return list(found.values())


def _manifest(path: str) -> str | None:
    (entry,) = files.describe([path])
    if entry.kind == "file":
        return path if os.path.basename(path) == MANIFEST else None
    inside = path.rstrip("/") + "/" + MANIFEST
    if entry.kind == "folder" and files.describe([inside])[0].kind == "file":
        return inside
    return None


def verify_files(
    listed: Sequence[Listed],
    processes: int,
    progress: Callable[[int], None] = lambda rows: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[FileReport]:
    """A report for each file, in any order. `progress` is called with the rows of each stripe that is begun.

    A process that does not come to the next stripe, or to the first one, within `patience_seconds` and the time that
    the file's bytes take at `_SLOWEST_BYTES_PER_SECOND` is ended: on damaged bytes a decoder may run for ever.
    """
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(listed))
    workers: dict[Connection, _Worker] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < processes:
                worker = _Worker(context, patience_seconds)
                workers[worker.connection] = worker
                worker.give(waiting.pop())
            first_deadline = min(worker.deadline for worker in workers.values())
            for connection in wait(list(workers), max(first_deadline - time.monotonic(), 0)):
                worker = workers[connection]  # type: ignore[index]
                try:
                    kind, value = worker.connection.recv()
                except (EOFError, OSError):
                    del workers[worker.connection]
                    yield worker.died()
                    continue
                if kind == "stripe":
                    worker.begins(value[0])
                    progress(value[1])
                    continue
                yield value
                if waiting:
                    worker.give(waiting.pop())
                else:
                    del workers[worker.connection]
                    worker.stop()
            now = time.monotonic()
            for worker in [worker for worker in workers.values() if worker.deadline <= now]:
                if not worker.connection.poll():  # else it came to an end just now
                    del workers[worker.connection]
                    yield worker.hung()
    finally:
        for worker in workers.values():
            worker.stop()


def _bytes_of(listed: Listed) -> int:
    """Size of a file, about: a remote one is not asked for it."""
    told = (listed.manifest or {}).get("bytes")
    if isinstance(told, int):
        return told
    if files.is_remote(listed.path):
        return _REMOTE_BYTES
    try:
        return files.file_bytes(listed.path)
    except (OSError, DataError):  # the process will tell
        return 0


class _Worker:
    """A process that verifies one file after the other."""

    def __init__(self, context: Any, patience_seconds: float):
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.path = ""
        self.stripe: int | None = None
        self.deadline = math.inf
        self._patience_seconds = patience_seconds
        self._file_seconds = 0.0

    def give(self, listed: Listed) -> None:
        self.path, self.stripe = listed.path, None
        self._file_seconds = _bytes_of(listed) / _SLOWEST_BYTES_PER_SECOND
        self._wait_on()
        with contextlib.suppress(OSError):  # it died; that is found when it is listened to
            self.connection.send(listed)

    def begins(self, stripe: int) -> None:
        """It came to a stripe."""
        self.stripe = stripe
        self._wait_on()

    def hung(self) -> FileReport:
        """Ends a process that takes too long."""
        self.stop()
        return self._report(f"the decoder did not end within {self._patience_seconds + self._file_seconds:,.0f} s")

    def died(self) -> FileReport:
        """What came of the file of a process that is gone."""
        self.process.join()
        code = self.process.exitcode
        self.connection.close()
        text = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        return self._report(f"the decoder ended by {text}")

    def _report(self, what: str) -> FileReport:
        where = self.path if self.stripe is None else f"{self.path}: stripe {self.stripe}"
        return FileReport(self.path, problems=[f"{where}: expected values that can be decoded, {what}"])

    def _wait_on(self) -> None:
        self.deadline = time.monotonic() + self._patience_seconds + self._file_seconds

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner ends us
    pa.set_cpu_count(1)
    try:
        while True:
            listed = connection.recv()
            report = verify_file(
                listed.path, listed.manifest, lambda stripe, rows: connection.send(("stripe", (stripe, rows)))
            )
            connection.send(("done", report))
    except (EOFError, OSError):  # the owner is gone
        return
