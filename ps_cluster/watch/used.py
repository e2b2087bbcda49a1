"""What processes used between two scrapes: processor time, stalls, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ps_cluster.watch.scrape import Scraped


@dataclass(frozen=True)
class Used:
    """Of one process.

    Attributes:
        seconds: Time between the scrapes; since the process began to serve figures where that is less.
        cpu_seconds: Processor time in it.
        stalled_seconds: Time in it for which the process wanted to run and could not.
        cpu_limit_cores: Cores that it may use.
        memory_bytes: Resident at the end, with the processes that it has started.
        peak_memory_bytes: The most of it so far; 0: not told.
        steps: Training steps between the scrapes; 0: not told.
    """

    role: str
    index: int
    seconds: float
    cpu_seconds: float
    stalled_seconds: float
    cpu_limit_cores: float
    memory_bytes: int
    peak_memory_bytes: int = 0
    steps: int = 0


def used_between(before: Sequence[Scraped], after: Sequence[Scraped]) -> list[Used]:
    """Of the processes that answered `after`; one that did not answer `before`, or was started anew since, counts from
    its start."""
    earlier = {one.endpoint.name: one for one in before}
    found = []
    steps = max((_steps(one) - _steps(earlier.get(one.endpoint.name)) for one in after), default=0)
    for now in after:
        if now.problem is None:
            was = earlier.get(now.endpoint.name)
            if was is not None and (was.problem is not None or _number(was, _SERVED) > _number(now, _SERVED)):
                was = None
            found.append(_used(was, now, max(steps, 0)))
    return found


_SERVED = "ps_cluster_served_seconds_total"
_STALLED = "ps_cluster_stalled_seconds_total"
_CPU = "process_cpu_seconds_total"


def _steps(scraped: Scraped | None) -> int:
    return int(_number(scraped, "ps_cluster_steps_total")) if scraped is not None and scraped.problem is None else 0


def _used(was: Scraped | None, now: Scraped, steps: int) -> Used:
    seconds, cpu, stalled = (
        max(_number(now, name) - (_number(was, name) if was is not None else 0.0), 0.0)
        for name in (_SERVED, _CPU, _STALLED)
    )
    return Used(
        role=now.endpoint.role,
        index=now.endpoint.index,
        seconds=seconds,
        cpu_seconds=cpu,
        stalled_seconds=min(stalled, seconds),
        cpu_limit_cores=_number(now, "ps_cluster_cpu_limit_cores"),
        memory_bytes=memory_bytes(now),
        peak_memory_bytes=int(_number(now, "ps_cluster_peak_memory_bytes")),
        steps=steps,
    )


def memory_bytes(scraped: Scraped) -> int:
    """Resident, with the processes that it has started."""
    names = ("process_resident_memory_bytes", "ps_cluster_children_resident_bytes")
    return int(sum(_number(scraped, name) for name in names))


def _number(scraped: Scraped, name: str) -> float:
    return scraped.value(name) or 0.0
