"""CPU time of reading, of this process and the processes it started, without what only the start costs."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Of reading so many rows of the source."""

    rows: float
    cpu_seconds: float
    wall_seconds: float

    @property
    def rate(self) -> float:
        """Rows per CPU-second."""
        return self.rows / self.cpu_seconds


Read = Callable[[int], int]
"""Reads the source so many times, leaves no process behind, and returns the rows that were covered."""


def compare(sides: dict[str, tuple[Read, int]], repeats: int) -> dict[str, list[Cost]]:
    """What each side costs, measured in turn `repeats` times, so that the machine's other load hits all alike.

    A side is how to read, and how many passes. What a start costs (processes, graphs, a plan) is the same for a short
    and a long read, so the difference of the two is what the rows cost.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, (read, passes) in sides.items():
            short, long = _cost(read, 1), _cost(read, 1 + passes)
            costs[name].append(
                Cost(
                    long.rows - short.rows,
                    max(long.cpu_seconds - short.cpu_seconds, 1e-3),
                    max(long.wall_seconds - short.wall_seconds, 1e-3),
                )
            )
    return costs


def once(read: Read) -> Cost:
    """One pass with all that it takes to start."""
    return _cost(read, 1)


def median_ratio(ours: list[Cost], theirs: list[Cost]) -> float:
    """Median over the pairs of how many times theirs our rows per CPU-second are."""
    return statistics.median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def median_rate(costs: list[Cost]) -> float:
    return statistics.median(cost.rate for cost in costs)


def table(costs: dict[str, list[Cost]]) -> str:
    """Rows per second of CPU and of wall time, a line a side."""
    width = max(map(len, costs))
    lines = []
    for name, found in costs.items():
        wall = statistics.median(cost.rows / cost.wall_seconds for cost in found)
        lines.append(f"  {name:{width}}  {median_rate(found):>12,.0f} rows/CPU-s  {wall:>12,.0f} rows/s")
    return "\n".join(lines)


def _cost(read: Read, passes: int) -> Cost:
    gc.collect()
    cpu, wall = _cpu_seconds(), time.perf_counter()
    rows = read(passes)
    gc.collect()
    return Cost(rows, _cpu_seconds() - cpu, time.perf_counter() - wall)


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended and been waited for."""
    return sum(os.times()[:4])
