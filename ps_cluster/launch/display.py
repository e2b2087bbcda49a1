"""The run's events on the user's screen, from a thread of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ps_cluster.launch.events_tail import EventsTail

_POLL_SECONDS = 0.2
_LAST_LOOK_SECONDS = 3.0


class Renderer(Protocol):
    """What shows events."""

    def handle(self, event: dict[str, Any]) -> None:
        """Show one event."""

    def tick(self) -> None:
        """Called several times a second, also when nothing happens."""

    def close(self) -> None:
        """The run is over: leave the terminal as it was."""


class Display:
    """Shows events until it is closed; a blocked screen or a failing renderer never holds up the caller."""

    def __init__(self, tail: EventsTail, make_renderer: Callable[[], Renderer]) -> None:
        self._tail = tail
        self._make_renderer = make_renderer
        self._over = threading.Event()
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="display", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Show what is still to be shown, as far as the screen takes it within a few seconds."""
        self._over.set()
        self._thread.join(_LAST_LOOK_SECONDS)

    def _run(self) -> None:
        with self._survived("nothing was shown"):
            renderer = self._make_renderer()
            try:
                over = False
                while not over:
                    over = self._over.wait(_POLL_SECONDS)
                    for event in self._tail.read():
                        with self._survived("an event was not shown"):
                            renderer.handle(event)
                    with self._survived("the display stood still"):
                        renderer.tick()
            finally:
                with self._survived("the display was not put away"):
                    renderer.close()

    @contextlib.contextmanager
    def _survived(self, what: str) -> Iterator[None]:
        """The run goes on whatever happens to its display; the first problem is told at the end."""
        try:
            yield
        except Exception as error:
            self.problem = self.problem or f"{what}: {type(error).__name__}: {error}"
