"""How far a command over sample files has come, in rows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

SILENCE_SECONDS = 10.0


class Progress:
    """Rows done on standard error: one line that moves on a terminal, a line every few seconds elsewhere."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic):
        self._title = title
        self._clock = clock
        self._moving = sys.stderr.isatty()
        self._start = self._last = clock()
        self._shown = False

    def show(self, done: int, total: int) -> None:
        now = self._clock()
        if now - self._last < (0.2 if self._moving else SILENCE_SECONDS):
            return
        self._last = now
        rate = done / max(now - self._start, 1e-9)
        text = f"{self._title}: {done:,} of {total:,} rows, {rate:,.0f} rows/s"
        print(f"\r\x1b[K{text}" if self._moving else text, end="" if self._moving else "\n", file=sys.stderr)
        sys.stderr.flush()
        self._shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._moving and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
