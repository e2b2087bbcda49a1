"""Ends a worker that has waited longer than the job file allows, and says for whom it waited."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from ps_cluster.errors import RESTART
from ps_cluster.job.failures_schema import Failures
from ps_cluster.job.membership import Membership
from ps_cluster.launch.last_words import ERROR_MARK
from ps_cluster.train.reach import who_does_not_answer
from ps_cluster.watch.health import Wait

_LOOK_SECONDS = 1.0


def _leave(message: str) -> None:
    """Ends the process, whatever its other threads hang in."""
    faulthandler.dump_traceback(sys.stderr)  # where they hang
    print(f"{ERROR_MARK}{message}", file=sys.stderr, flush=True)
    os._exit(RESTART)


class Watchdog:
    """A thread that knows what a worker is doing and since when; use as a context manager.

    Whatever may wait for another process is announced with `at`, which begins a new wait. Work that waits for nobody is
    `off`. A wait beyond its limit ends the process with status 75; the message names who does not answer, found by
    asking every other process of the job.
    """

    def __init__(self, membership: Membership, limits: Failures, end: Callable[[str], None] = _leave):
        """end: what to do with the message."""
        self._membership = membership
        self._limits = limits
        self._end = end
        self._over = threading.Event()
        self._now: tuple[str, float, float] | None = None  # what, since when, how long it may take
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def at(self, what: str, long: bool = False) -> None:
        """The worker begins something that may wait for others, such as `step 512`.

        long: the others may have much to do meanwhile: the longer one of the job file's limits.
        """
        limit = self._limits.long_wait_seconds if long else self._limits.wait_seconds
        self._now = (what, time.monotonic(), float(limit))

    def wait(self) -> Wait | None:
        """What is being done, and since when; None: nothing that waits for others."""
        now = self._now
        return None if now is None else Wait(now[0], time.monotonic() - now[1], now[2])

    def off(self) -> None:
        """Nothing is waited for."""
        self._now = None

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            now = self._now
            if now is None or time.monotonic() - now[1] <= now[2]:
                continue
            silent = who_does_not_answer(self._membership)
            if self._now is now and not self._over.is_set():  # it still waits
                self._end(self._message(now[0], now[2], silent))
                return

    def _message(self, what: str, limit: float, silent: list[str]) -> str:
        whom = " and ".join(silent) if silent else "another process of the job: all of them answer, one does not go on"
        return f"worker {self._membership.index}: {what} has waited {limit:g} s for {whom}"
