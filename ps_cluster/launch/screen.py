"""A text stream to the user that never ends the run behind it."""

from __future__ import annotations

import contextlib
import io
import os
import select

_PIECE_BYTES = 512  # what a pipe or terminal that is ready takes without blocking


class Screen(io.TextIOBase):
    """Writes to a copy of a file descriptor; once the reader is gone, text is dropped.

    Unbuffered, because a buffered stream whose writer hangs on a full pipe (a pager that waits, a terminal
    after Ctrl-S) holds a lock that the interpreter wants at its end.

    Args:
      fd: descriptor to copy.
      patience_seconds: how long one write waits for a reader that does not read, before it drops the rest
        of its text; None: for ever.
    """

    def __init__(self, fd: int, patience_seconds: float | None = None) -> None:
        self._patience_seconds = patience_seconds
        try:
            self._fd: int | None = os.dup(fd)
        except OSError:  # started with the stream closed
            self._fd = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Always UTF-8."""
        return "utf-8"

    def writable(self) -> bool:
        """Always: text may be dropped, but is never refused."""
        return True

    def write(self, text: str) -> int:
        """Write all of `text` now, or drop what nobody reads."""
        data = text.encode("utf-8", errors="replace")
        while data and self._fd is not None:
            try:
                if not self._ready():
                    break
                data = data[os.write(self._fd, data[:_PIECE_BYTES]) :]
            except BlockingIOError:  # a descriptor shared with somebody who made it non-blocking
                continue
            except OSError:  # the reader is gone, or the disk of a redirected output is full
                self.close()
        return len(text)

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return self._fd is not None and os.isatty(self._fd)

    def fileno(self) -> int:
        """The descriptor that is written to."""
        if self._fd is None:
            raise OSError("the stream is closed")
        return self._fd

    def close(self) -> None:
        """Give the descriptor back; later text is dropped."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _ready(self) -> bool:
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        wait = None if self._patience_seconds is None else self._patience_seconds * 1000
        return bool(poll.poll(wait))
