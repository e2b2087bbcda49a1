"""SIGTERM or Ctrl-C to a worker: end where training can go on later, at once where nothing would be lost by it."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ps_cluster.errors import RESTART

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Drain:
    """Notes SIGTERM and SIGINT from `install` on. A second one ends the process at once.

    A thread of its own acts on it: Python runs signal handlers between two of its own instructions, and the main thread
    may be inside TensorFlow for long.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words: str | None = None
        self._signals = 0

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._signals > 0

    def install(self) -> None:
        """Takes the signals over; in the main thread. SIGINT that was ignored (`nohup`) stays so."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(reading, True)
        for signum in _SIGNALS:
            if signum == signal.SIGTERM or signal.getsignal(signum) != signal.SIG_IGN:
                signal.signal(signum, lambda signum, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, args=(reading,), name="drain", daemon=True).start()

    def end_at_once(self, words: str) -> None:
        """From now on the process ends as soon as a signal comes, or now if one has; it says `words` on standard error
        and leaves with the code that asks for a restart."""
        with self._lock:
            self._words = words
            if self._signals:
                self._leave(RESTART)

    def defer(self) -> None:
        """From now on a signal is only noted."""
        with self._lock:
            self._words = None

    def _listen(self, reading: int) -> None:
        while number := os.read(reading, 1):
            if number[0] not in _SIGNALS:
                continue
            with self._lock:
                self._signals += 1
                if self._words is not None:
                    self._leave(RESTART)
                if self._signals > 1:
                    self._leave(128 + number[0])

    def _leave(self, code: int) -> None:
        if code == RESTART:
            os.write(sys.stderr.fileno(), f"{self._words}\n".encode())
        # Nothing is put in order: the main thread may be anywhere.
        os._exit(code)
