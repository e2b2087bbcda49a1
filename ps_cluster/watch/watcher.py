"""Worker 0's look at all processes of its job while it trains, from a thread of its own: training waits for nobody."""

from __future__ import annotations

import threading
from dataclasses import replace

from ps_cluster.watch.endpoint import endpoints_of
from ps_cluster.watch.scrape import Scraped, scrape
from ps_cluster.watch.used import Used, used_between

_WAIT_SECONDS = 10.0


class Watcher:
    """What the processes have used since `begin`, or `begin_again`."""

    def __init__(self, output: str):
        self._output = output
        self._begun: list[Scraped] | None = None
        self._found: list[Used] | None = None
        self._thread: threading.Thread | None = None
        self._peaks: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """Training begins."""
        self._begun = scrape(endpoints_of(self._output))

    def begin_again(self) -> None:
        """What was used until now, while the processes started, counts no more; waits for nobody."""

        def again() -> None:
            self._begun = scrape(endpoints_of(self._output))

        if self._begun is not None and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=again, name="watcher", daemon=True)
            self._thread.start()

    def look(self) -> None:
        """Asks all processes, unless that still goes on from the last call."""
        if self._begun is not None and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._look, name="watcher", daemon=True)
            self._thread.start()

    def take(self) -> list[Used] | None:
        """What has been found since the last call; None: nothing new."""
        found, self._found = self._found, None
        return found

    def last(self) -> list[Used]:
        """What the processes have used until now; waits for their answers, which take seconds at the most."""
        if self._thread is not None:
            self._thread.join(_WAIT_SECONDS)
        if self._begun is not None:
            self._look()
        return self.take() or []

    def _look(self) -> None:
        assert self._begun is not None
        found = used_between(self._begun, scrape(endpoints_of(self._output)))
        for one in found:  # a reader that has ended is not in the last look
            name = one.role, one.index
            self._peaks[name] = max(self._peaks.get(name, 0), one.peak_memory_bytes)
        self._found = [replace(one, peak_memory_bytes=self._peaks[one.role, one.index]) for one in found]
