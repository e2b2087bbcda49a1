"""Long commands shown as a few plain lines, their own words kept in a log file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SIGN_OF_LIFE_SECONDS = 30.0
TAIL_LINES = 30


class StepFailed(Exception):
    """A command of set-up failed; its words have been shown."""


class Steps:
    """Numbered steps of one set-up.

    `before_first` runs before the first step that has something to do; the first command empties the log.
    """

    def __init__(self, total: int, log_path: Path, before_first: Callable[[], None]) -> None:
        self.begun = False
        self._before_first = before_first
        self._total = total
        self._number = 0
        self._log_path = log_path
        self._log_started = False
        self._title = ""

    def begin(self, title: str, note: str = "") -> None:
        """Shows the next step: `[set-up 2/5] packages (about 1 GB, a few minutes)`."""
        if not self.begun:
            self._before_first()
            self.begun = True
        self._number += 1
        self._title = title
        print(f"[set-up {self._number}/{self._total}] {title}{f' ({note})' if note else ''}", flush=True)

    def skip(self) -> None:
        """Counts a step that has nothing to do."""
        self._number += 1

    def run(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        """Runs a command into the log; StepFailed, with the log's last lines shown, when it fails.

        The command leads its own process group, which is killed when this process is told to stop.
        """
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab" if self._log_started else "wb") as log:
            self._log_started = True
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            start = log.tell()
            began = time.monotonic()
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = self._wait(process, began)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if code != 0:
            self._show_tail(start)
            raise StepFailed(f"ps-cluster: set-up failed at {self._title!r}; all of its words: {self._log_path}")

    def _wait(self, process: subprocess.Popen[bytes], began: float) -> int:
        while True:
            try:
                return process.wait(timeout=SIGN_OF_LIFE_SECONDS)
            except subprocess.TimeoutExpired:
                seconds = time.monotonic() - began
                print(f"[set-up {self._number}/{self._total}] … {seconds:.0f} s", flush=True)

    def _show_tail(self, start: int) -> None:
        with self._log_path.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").splitlines()
        for line in lines[-TAIL_LINES:]:
            print(f"    {line}", flush=True)
