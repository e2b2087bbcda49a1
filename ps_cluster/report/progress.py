"""Follows a run for the person who started it: a bar on a terminal, lines anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from ps_cluster.report import summary
from ps_cluster.report.plain import PlainDisplay
from ps_cluster.report.status import Status
from ps_cluster.report.terminal import TerminalDisplay

_LINES = (
    *("checkpoint", "checkpoint_failed", "warm_start", "resume", "restart", "recovered"),
    *("file", "export_failed", "damaged"),
)


class Renderer:
    """Shows the events of a run as they come (see `ps_cluster.report.events`).

    >>> with Renderer() as renderer:
    ...     while running:
    ...         for event in tail.read():
    ...             renderer.handle(event)
    ...         renderer.tick()          # a few times a second: nothing stays silent for more than 10 s

    stream: where to; default standard output. clock: seconds, for the silence between lines.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic):
        stream = sys.stdout if stream is None else stream
        self._status = Status()
        self._display = TerminalDisplay(stream) if is_terminal(stream) else PlainDisplay(stream, clock)

    def handle(self, event: Mapping[str, Any]) -> None:
        """Show one event. Kinds that are not known here are passed over."""
        new_phase = self._status.update(event)
        kind = event["event"]
        if kind == "start":
            self._display.block(summary.head(event))
        if kind in _LINES:
            self._display.line(summary.line(event))
        if kind == "exported" and "step" in event:  # the last one is part of the result
            self._display.line(summary.line(event))
        if kind in ("start", "step", "phase", "done"):
            self._display.show(self._status, new_phase)
        if kind == "done":
            self._display.block(summary.result(self._status))
        if "done" in self._status.last and "next" in self._status.last and kind in ("done", "next"):
            self._display.block(summary.commands(self._status.last["next"]))
        if kind == "evicted":
            self._display.line(summary.evicted(event))

    def note(self, text: str) -> None:
        """A line of the caller's own, such as `2 PS are ready`."""
        self._display.line(text)

    def tick(self) -> None:
        """Call this often: it keeps the display alive while no events come."""
        self._display.tick(self._status)

    def close(self) -> None:
        """Give the stream back, also in the middle of a run; may be called again."""
        self._display.close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at `stream` through a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
