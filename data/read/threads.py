"""How many threads decode."""

from __future__ import annotations

import os

from data.read.read_spec import ReadSpec

MOST_THREADS = 4


def decode_threads(spec: ReadSpec) -> int:
    """Those that `spec` asks for; 0: one for each core that this process may use, at most `MOST_THREADS`."""
    return spec.decode_threads or threads_for(1)


def threads_for(workers: int) -> int:
    """Threads for each of so many readers on this machine, at least 1."""
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0)) // workers))
