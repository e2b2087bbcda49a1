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
    """

    role: str
    index: int
    seconds: float
    cpu_seconds: float
    stalled_seconds: float
    cpu_limit_cores: float
    memory_bytes: int


def used_between(before: Sequence[Scraped], after: Sequence[Scraped]) -> list[Used]:
    """Of the processes that answered `after`; one that did not answer `before`, or was started anew since, counts from
    its start."""
    earlier = {one.endpoint.name: one for one in before}
    found = []
    for now in after:
        if now.problem is None:
            was = earlier.get(now.endpoint.name)
            if was is not None and (was.problem is not None or _number(was, _SERVED) > _number(now, _SERVED)):
                was = None
            found.append(_used(was, now))
    return found


_SERVED = "ps_cluster_served_seconds_total"
_STALLED = "ps_cluster_stalled_seconds_total"
_CPU = "process_cpu_seconds_total"


def _used(was: Scraped | None, now: Scraped) -> Used:
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
    )


def memory_bytes(scraped: Scraped) -> int:
    """Resident, with the processes that it has started."""
    names = ("process_resident_memory_bytes", "ps_cluster_children_resident_bytes")
    return int(sum(_number(scraped, name) for name in names))


def _number(scraped: Scraped, name: str) -> float:
    return scraped.value(name) or 0.0
