"""Signals that ask a command to end, noted instead of acted upon."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Asked:
    """While open, SIGINT, SIGTERM and SIGHUP are counted; use as a context manager, in the main thread.

    A signal that was ignored when the program started (`nohup`, a shell's background job) stays ignored.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.times = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Asked:
        for signum in self._SIGNALS:
            before = signal.getsignal(signum)
            if before != signal.SIG_IGN or signum == signal.SIGTERM:
                self._before[signum] = before
                signal.signal(signum, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before if before is not None else signal.SIG_DFL)  # type: ignore[arg-type]

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.times += 1
        if self.first is None:
            self.first = signal.Signals(signum)
