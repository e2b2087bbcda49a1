"""Progress as lines of text: for pipes, files and the logs of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from ps_cluster.report.status import Status
from ps_cluster.report.summary import Block
from ps_cluster.report.text import count, duration, figure, of_step

_QUIET_SECONDS = 10.0
_ASCII = str.maketrans({"·": "-", "×": "x", "…": "..."})


class PlainDisplay:
    """Writes every step event as a line of a table, and something at least every 10 s while it is asked to
    `tick`."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic):
        self._stream = stream
        self._clock = clock
        self._written = self._phase_start = clock()
        self._headed = False
        self._shown: Mapping[str, Any] | None = None

    def block(self, block: Block) -> None:
        """A title and its rows, the labels in a column."""
        width = max((len(label) for label, _ in block.rows), default=0)
        lines = [f"  {label:{width}}  {text}".rstrip() for label, text in block.rows]
        self.line("\n".join(["", block.title, *lines]))

    def line(self, text: str) -> None:
        """Text as it is, at once."""
        try:
            self._stream.write(text + "\n")
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            self._stream.write(text.translate(_ASCII).encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()
        self._written = self._clock()

    def show(self, status: Status, new_phase: bool) -> None:
        """What has changed, when it is worth a line."""
        if new_phase:
            self._phase_start = self._clock()
        if status.phase == "train":
            step = status.last.get("step")
            if step is not None and step is not self._shown:  # not that of an attempt before
                self._shown = step
                self._step(status)
        elif new_phase and status.phase not in ("start", "done"):
            self.line(f"\n{status.label} …" if self._headed else f"{status.label} …")
            self._headed = False
        else:
            self.tick(status)

    def tick(self, status: Status) -> None:
        """Say what goes on when nothing has been said for a while."""
        if status.phase == "done" or self._clock() - self._written < _QUIET_SECONDS:
            return
        done, total = status.progress
        parts = [f"{status.label} …"]
        if done is not None:
            parts.append(f"{count(done)} of {count(total)} {status.unit}" if total else f"{count(done)} {status.unit}")
        parts.append(f"for {duration(self._clock() - self._phase_start)}")
        self.line("  ".join(parts))

    def close(self) -> None:
        """Nothing is held."""

    def _step(self, status: Status) -> None:
        event, (done, total) = status.last["step"], status.progress
        width = max(len(count(total)) * 2 + 1 if total else 10, 9)
        if not self._headed:
            self.line(f"\n{'step':>{width}}  epoch    loss     AUC  samples/s      ETA")
            self._headed = True
        step = f"{count(done or 0)}/{count(total)}" if total else count(done or 0)
        remaining, speed = status.remaining_seconds, float(event["samples_per_second"])
        figures = f"{figure(event['loss']):>6}  {figure(event.get('auc')):>6}  {count(speed):>9}"
        eta = "-" if remaining is None else duration(remaining)
        self.line("  ".join([f"{step:>{width}}  {event['epoch']:>5}  {figures}  {eta:>7}", *of_step(event)]))
