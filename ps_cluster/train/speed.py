"""Rows per second of a training, altogether and since the last report."""

from __future__ import annotations

import time


class Speed:
    """Counts rows from the end of the first step on, in which TensorFlow traces the graph."""

    def __init__(self) -> None:
        self._rows = self._window_rows = 0
        self._first = True
        self.begin()

    def begin(self) -> None:
        """The first step begins now."""
        self._started = self._window_started = time.monotonic()

    def step_done(self, rows: int) -> None:
        """A step of `rows` rows has ended."""
        if self._first:
            self._first = False
            self.begin()
        else:
            self._rows += rows
            self._window_rows += rows

    def rested(self, seconds: float) -> None:
        """For so long there was nothing to train."""
        self._started += seconds
        self._window_started += seconds

    def take_window(self) -> float:
        """Rows per second since the last call; a new window begins."""
        now = time.monotonic()
        rate = self._window_rows / max(now - self._window_started, 1e-9)
        self._window_rows, self._window_started = 0, now
        return rate

    @property
    def seconds(self) -> float:
        """Since the first step ended, without rests."""
        return time.monotonic() - self._started

    def over(self, seconds: float) -> float:
        """Rows per second altogether, in `seconds`."""
        return self._rows / max(seconds, 1e-9)
