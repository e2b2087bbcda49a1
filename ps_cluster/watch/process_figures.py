"""What every process tells of itself: who it is, memory, processor time, and how long it was kept from running."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

_TICK_SECONDS = 0.05
_TOLERATED_SECONDS = 0.01


class Stalls:
    """Adds up the time for which this process wanted to run and could not: stopped, out of its quota of processor time,
    or waiting for a core. A thread of its own sleeps for a twentieth of a second, again and again, and counts by how
    much it woke up too late; in a Python program also the time for which others held the interpreter."""

    def __init__(self) -> None:
        self.seconds = 0.0
        threading.Thread(target=self._run, name="stalls", daemon=True).start()

    def _run(self) -> None:
        while True:
            begun = time.monotonic()
            time.sleep(_TICK_SECONDS)
            late = time.monotonic() - begun - _TICK_SECONDS
            if late > _TOLERATED_SECONDS:
                self.seconds += late


class ProcessFigures(Collector):
    """Families about this process and the processes that it has started, such as a worker's reader."""

    def __init__(self, job: str, role: str, index: int):
        self._labels = {"job_name": job, "role": role, "index": str(index)}
        self._stalls = Stalls()
        self._begun = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("ps_cluster_process_info", "Which process of a job this is.", labels=[*self._labels])
        info.add_metric([*self._labels.values()], 1)
        yield info
        yield CounterMetricFamily(
            "ps_cluster_served_seconds", "Time since this process serves figures.", time.monotonic() - self._begun
        )
        yield CounterMetricFamily(
            "ps_cluster_stalled_seconds",
            "Time for which this process wanted to run and could not.",
            self._stalls.seconds,
        )
        yield GaugeMetricFamily("ps_cluster_cpu_limit_cores", "Cores that this process may use.", cpu_limit())
        children = _children(os.getpid())
        yield GaugeMetricFamily(
            "ps_cluster_children_resident_bytes",
            "Memory of the processes that this one has started, such as a worker's reader.",
            sum(_resident_bytes(pid) for pid in children),
        )
        yield GaugeMetricFamily(
            "ps_cluster_peak_memory_bytes",
            "The most memory that this process has had, and that of each one that it has started and still runs.",
            sum(_peak_bytes(pid) for pid in (os.getpid(), *children)),
        )
        yield GaugeMetricFamily(
            "ps_cluster_children_cpu_seconds",
            "Processor time of the processes that this one has started and that still run.",
            sum(_cpu_seconds(pid) for pid in children),
        )


def registry_of(job: str, role: str, index: int) -> CollectorRegistry:
    """A registry with `ProcessFigures` and Prometheus' usual `process_…` families."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(ProcessFigures(job, role, index))
    return registry


def cpu_limit() -> float:
    """Cores: those that this process may run on, or its control group's quota where that is less."""
    cores = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, int(quota) / int(period))
    except (OSError, ValueError):  # no control groups of version 2, or "max"
        return cores


def _children(pid: int) -> list[int]:
    """All that descend from a process."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in path.read_text().split()]
        except OSError:
            continue
    return [one for child in found for one in (child, *_children(child))]


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _peak_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
