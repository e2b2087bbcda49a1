"""Parts decoded ahead of their use by several threads, in order, a bounded number of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

from data.read.part_reader import PartReader, PartRows
from data.read.read_spec import ReadSpec
from data.read.stripes import Part

THREAD_NAME = "decode"
_MOST_AHEAD = 64


class Watcher(Protocol):
    """Who wants to know what is being decoded."""

    def reading(self, part: Part) -> None:
        """About to decode `part`."""

    def read(self, part: Part) -> None:
        """Decoded it, or failed."""


class Run(NamedTuple):
    """Parts of one stripe, which is decoded once, and how many rows they give at most."""

    parts: list[Part]
    most_rows: int


def decoded(
    runs: Iterator[Run], spec: ReadSpec, threads: int, watcher: Watcher
) -> Generator[list[PartRows], None, None]:
    """What each of `runs` gives, in their order; an error comes in its place.

    `threads` runs are decoded ahead, and more while all that are ahead hold fewer than `spec.shuffle_rows` rows.
    """
    local = threading.local()

    def decode(parts: list[Part]) -> list[PartRows]:
        if not hasattr(local, "reader"):
            local.reader = PartReader(spec)  # pyarrow's ORC files are not for several threads at once
        watcher.reading(parts[0])
        try:
            return local.reader.read(parts)
        finally:
            watcher.read(parts[0])

    pool = ThreadPoolExecutor(threads, THREAD_NAME)
    waiting: deque[tuple[int, Future[list[PartRows]]]] = deque()
    rows_ahead = 0
    try:
        while True:
            while len(waiting) < threads or (rows_ahead < spec.shuffle_rows and len(waiting) < _MOST_AHEAD):
                run = next(runs, None)
                if run is None:
                    break
                waiting.append((run.most_rows, pool.submit(decode, run.parts)))
                rows_ahead += run.most_rows
            if not waiting:
                return
            rows, future = waiting.popleft()
            result = future.result()
            rows_ahead -= rows
            del future
            yield result
            del result  # else it would live on here
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
