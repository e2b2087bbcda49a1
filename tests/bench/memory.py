"""Memory of processes, as the system counts it: now, at the most so far, and looked at again and again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

LOOK_SECONDS = 0.05


def resident_bytes(field: str = "VmRSS", pid: int | str = "self") -> int:
    """Of a process: `VmRSS` now, `VmHWM` at the most so far."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no {field}")


@contextlib.contextmanager
def looked_at(look: Callable[[], None]) -> Iterator[None]:
    """Calls `look` every few milliseconds from a thread of its own, until it finds a process gone."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(LOOK_SECONDS):
            try:
                look()
            except psutil.NoSuchProcess:
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Together:
    """The most memory of a process and all below it that live at a time.

    Each counts with its own most so far: the longer a run, the likelier two of them have their most at the same time.
    """

    def __init__(self, pid: int):
        self.bytes = 0
        self._most: dict[int, int] = {}
        self._process = psutil.Process(pid)

    def look(self) -> None:
        processes = [self._process, *self._process.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._most[process.pid] = max(self._most.get(process.pid, 0), process.memory_info().rss)
        self.bytes = max(self.bytes, sum(self._most.get(process.pid, 0) for process in processes))
