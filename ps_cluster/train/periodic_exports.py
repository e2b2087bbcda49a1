"""Exports while training goes on: a process of its own for each, started when a checkpoint is whole."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from ps_cluster.job.export_schema import Export
from ps_cluster.job.resolve import JobFile
from ps_cluster.launch.pdeathsig import PARENT_VARIABLE

_NICE = 10
_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Exported:
    """How an export has ended. path: the new folder; empty when there is none, and `problem` says why.

    step: of the newest checkpoint when it began. delta: it holds changes only.
    """

    path: str
    step: int
    delta: bool
    seconds: float
    problem: str


class PeriodicExports:
    """What worker 0 does between two steps about exports; never two at once. Close it."""

    def __init__(
        self, job_file: JobFile, settings: Export | None, limit_seconds: float, tell: Callable[[Exported], None]
    ):
        """Args:
        settings: None: nothing is exported.
        limit_seconds: an export that takes longer is ended, and has failed.
        tell: takes how each one ended.
        """
        self._job_file = job_file
        self._settings = settings
        self._limit_seconds = limit_seconds
        self._tell = tell
        self._newest: int | None = None  # checkpoint
        self._since = 0  # checkpoints that were written since the one that was exported last
        self._last = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._out: IO[bytes] | None = None
        self._err: IO[bytes] | None = None
        self._step = 0

    def saved(self, step: int) -> None:
        """The checkpoint of `step` is whole."""
        self._newest, self._since = step, self._since + 1

    def tick(self) -> None:
        """Tells of an export that has ended, and starts one that is due."""
        if self._process is not None:
            late = time.monotonic() - self._last > self._limit_seconds
            if late:
                self._process.kill()
                self._process.wait()
            status = self._process.poll()
            if status is None:
                return
            self._take(status, f"did not end within {self._limit_seconds:g} s" if late else "")
        if self._newest is not None and self._due():
            self._start(self._newest)

    def close(self) -> None:
        """Ends an export that is under way, which leaves nothing; may be called again."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._forget()

    def __enter__(self) -> PeriodicExports:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _due(self) -> bool:
        if not self._since or self._settings is None:
            return False
        if self._settings.every_checkpoints is not None:
            return self._since >= self._settings.every_checkpoints
        return time.monotonic() - self._last >= 60 * (self._settings.every_minutes or 0.0)

    def _start(self, step: int) -> None:
        self._since, self._last, self._step = 0, time.monotonic(), step
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid()), "CUDA_VISIBLE_DEVICES": "-1"}
        environment.pop("TF_CONFIG", None)
        command = [sys.executable, "-m", "ps_cluster", "export", self._job_file.path, "--as-scheduled"]
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (live as long as it)
        try:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err
            )
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        except ProcessLookupError:  # has ended already; the next tick tells
            pass
        except OSError as error:
            self._forget()
            self._tell(Exported("", step, False, 0.0, f"cannot be started: {error.strerror}"))

    def _take(self, status: int, problem: str) -> None:
        out, err = self._lines(self._out), self._lines(self._err)
        seconds = time.monotonic() - self._last
        self._forget()
        if status == 0 and out:
            path = out[-1]
            self._tell(Exported(path, self._step, os.path.basename(path).startswith("delta-"), seconds, ""))
        else:
            said = problem or (err[-1] if err else f"ended with status {status}")
            self._tell(Exported("", self._step, False, seconds, said))

    @staticmethod
    def _lines(file: IO[bytes] | None) -> list[str]:
        if file is None:
            return []
        file.seek(0)
        return [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]

    def _forget(self) -> None:
        for file in (self._out, self._err):
            if file is not None:
                file.close()
        self._process = self._out = self._err = None
