"""How far a command over sample files has come, in rows or bytes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

SILENCE_SECONDS = 10.0
_BAR = 20  # characters


class Progress:
    """Rows (or another `unit`) done, on standard error.

    A line with a bar that moves on a terminal, a line every few seconds elsewhere.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic, unit: str = "rows"):
        self._title = title
        self._unit = unit
        self._clock = clock
        self._moving = sys.stderr.isatty()
        self._start = self._last = clock()
        self._shown = False

    def show(self, done: int, total: int) -> None:
        """Tells it, if it is time to. `total`: 0 when it is not known."""
        now = self._clock()
        if now - self._last < (0.2 if self._moving else SILENCE_SECONDS):
            return
        self._last = now
        rate = done / max(now - self._start, 1e-9)
        many = f"{done:,} of {total:,}" if total else f"{done:,}"
        text = f"{self._title}: {many} {self._unit}, {rate:,.0f} {self._unit}/s"
        if self._moving and total:
            full = int(_BAR * min(1.0, done / max(total, 1)))
            text = f"[{'#' * full}{'.' * (_BAR - full)}] {text}"
        print(f"\r\x1b[K{text}" if self._moving else text, end="" if self._moving else "\n", file=sys.stderr)
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Takes the moving line away, where something else is to be printed."""
        if self._moving and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()
