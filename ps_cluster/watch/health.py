"""Whether a process makes progress, as `/healthz` answers it: 200, or 503 where it does not within the stated limit.

A process that waits for another one makes progress as long as the wait is within its limit, as nothing is gained by
ending it. A PS only ever waits, so what counts there is whether it would answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ps_cluster.train.reach import serves_grpc

_MISSES = 2
"""Failed questions in a row: one may be lost on a busy machine."""


@dataclass(frozen=True)
class Health:
    """problem: why the process makes no progress; empty where it does. told: what is said beside that."""

    problem: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """What a worker does, may wait for others in, and since when; `limit_seconds`: how long it may take."""

    what: str
    seconds: float
    limit_seconds: float


def of_worker(told: Mapping[str, Any], wait: Wait | None) -> Health:
    """Health of a worker. told: its phase and steps. wait: None: it does something that waits for nobody."""
    if wait is None:
        return Health("", told)
    told = {
        **told,
        "doing": wait.what,
        "for_seconds": round(wait.seconds, 1),
        "limit_seconds": wait.limit_seconds,
    }
    late = wait.seconds > wait.limit_seconds
    return Health(f"{wait.what} has taken more than {wait.limit_seconds:g} s" if late else "", told)


class PsHealth:
    """Health of a PS: its TensorFlow server is asked, at most every few seconds, whether it answers."""

    def __init__(self, port: int, ask_again_seconds: float = 5.0):
        self._address = f"127.0.0.1:{port}"  # it listens on all interfaces
        self._ask_again_seconds = ask_again_seconds
        self._lock = threading.Lock()
        self._misses = 0
        self._asked: float | None = None

    def __call__(self) -> Health:
        with self._lock:
            now = time.monotonic()
            if self._asked is None or now - self._asked >= self._ask_again_seconds:
                self._misses = 0 if serves_grpc(self._address) else self._misses + 1
                self._asked = time.monotonic()
            silent = self._misses >= _MISSES
        return Health(f"TensorFlow's server at {self._address} does not answer" if silent else "", {"phase": "serve"})
