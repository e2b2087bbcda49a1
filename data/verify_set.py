"""Verifying many files by several processes; a file that ends its process is a problem of that file only."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import pyarrow as pa

from data import files
from data.paths import MANIFEST, expand, read_manifest
from data.verify import FileReport, verify_file


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
    listed: Sequence[Listed], processes: int, progress: Callable[[int], None] = lambda rows: None
) -> Iterator[FileReport]:
    """A report for each file, in any order. `progress` is called with the rows of each stripe that is begun."""
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(listed))
    workers: dict[Connection, _Worker] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < processes:
                worker = _Worker(context)
                workers[worker.connection] = worker
                worker.give(waiting.pop())
            for connection in wait(list(workers)):
                worker = workers[connection]  # type: ignore[index]
                try:
                    kind, value = worker.connection.recv()
                except (EOFError, OSError):
                    del workers[worker.connection]
                    yield worker.died()
                    continue
                if kind == "stripe":
                    worker.stripe, rows = value
                    progress(rows)
                    continue
                yield value
                if waiting:
                    worker.give(waiting.pop())
                else:
                    del workers[worker.connection]
                    worker.stop()
    finally:
        for worker in workers.values():
            worker.stop()


class _Worker:
    """A process that verifies one file after the other."""

    def __init__(self, context: Any):
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.path = ""
        self.stripe: int | None = None

    def give(self, listed: Listed) -> None:
        self.path, self.stripe = listed.path, None
        self.connection.send(listed)

    def died(self) -> FileReport:
        self.process.join()
        where = self.path if self.stripe is None else f"{self.path}: stripe {self.stripe}"
        code = self.process.exitcode
        self.connection.close()
        text = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        return FileReport(
            self.path, problems=[f"{where}: expected values that can be decoded, the decoder ended by {text}"]
        )

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
