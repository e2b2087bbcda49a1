"""A whole job at one moment: each process with its state, and what training has come to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ps_cluster.report.status import Status
from ps_cluster.train.step_time import PARTS, StepTime
from ps_cluster.watch.figures import difference, step_seconds
from ps_cluster.watch.scrape import Scraped
from ps_cluster.watch.used import Used, memory_bytes, used_between

ENDED = ("finished", "failed", "stopped", "killed")


@dataclass(frozen=True)
class ProcessView:
    """One process. None: not known.

    Attributes:
        state: What it does, as a word, or why that is not known.
        answers: Whether it told its figures.
        samples_per_second: Rows of this worker.
        cores: Processor time over time.
        shares: Of a worker's time, by part.
    """

    name: str
    state: str
    answers: bool
    step: int | None = None
    samples_per_second: float | None = None
    memory_bytes: int | None = None
    cores: float | None = None
    shares: dict[str, float] | None = None


@dataclass(frozen=True)
class JobView:
    """The job; figures as in step events, over all workers. None: not known.

    freshness_seconds: since the newest event that was trained on.
    """

    job: str | None
    state: str
    step: int | None
    steps_total: int | None
    loss: float | None
    auc: float | None
    samples_per_second: float | None
    remaining_seconds: float | None
    freshness_seconds: float | None = None
    processes: list[ProcessView] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


def view(state: str | None, status: Status, before: Sequence[Scraped], now: Sequence[Scraped]) -> JobView:
    """Puts together what is known.

    Args:
      state: what the launcher wrote down; None: there was none.
      status: of the events so far.
      before, now: answers of the processes at two moments; `before` may be empty.
    """
    start, step = status.last.get("start", {}), status.last.get("step", {})
    return JobView(
        job=start.get("job") or _job_name(now),
        state=_state(state, status, now),
        step=step.get("step"),
        steps_total=start.get("steps_total"),
        loss=_float(step.get("loss")),
        auc=_float(step.get("auc")),
        samples_per_second=_float(step.get("samples_per_second")),
        remaining_seconds=status.remaining_seconds,
        freshness_seconds=None if status.newest_event_time is None else time.time() - status.newest_event_time,
        processes=_processes(state, status, before, now),
    )


def _state(state: str | None, status: Status, now: Sequence[Scraped]) -> str:
    if state in ENDED:
        return str(state)
    if status.phase == "done":
        return "finished"
    if state is None and not any(one.problem is None for one in now):
        return "no process answers"
    return status.label if status.last else "running"


def _processes(
    state: str | None, status: Status, before: Sequence[Scraped], now: Sequence[Scraped]
) -> list[ProcessView]:
    told = {f"{one['role']} {one['index']}": one for one in status.last.get("processes", {}).get("processes", [])}
    earlier = {one.endpoint.name: one for one in before if one.problem is None}
    used = {f"{one.role} {one.index}": one for one in used_between(before, now)}
    views = []
    for one in now:
        name = one.endpoint.name
        if one.problem is None:
            views.append(_answering(one, earlier.get(name), used[name]))
            continue
        ended = state in ENDED or status.phase == "done"
        index = one.endpoint.index
        shares = None
        if one.endpoint.role == "worker" and index < len(status.step_time):
            shares = shares_of(StepTime(**status.step_time[index]))
        kept = told.get(name)
        views.append(
            ProcessView(
                name,
                "ended" if ended else f"does not answer: {one.problem}",
                answers=False,
                memory_bytes=kept["memory_bytes"] if kept else None,
                cores=kept["cpu_seconds"] / kept["seconds"] if kept and kept["seconds"] else None,
                shares=shares,
            )
        )
    return views


def _answering(now: Scraped, before: Scraped | None, used: Used) -> ProcessView:
    cores = used.cpu_seconds / used.seconds if used.seconds else None
    if now.endpoint.role != "worker":
        return ProcessView(now.endpoint.name, "serving", True, memory_bytes=memory_bytes(now), cores=cores)
    phase = next((labels["phase"] for labels, _ in now.labelled("ps_cluster_phase_info")), "running")
    seconds, rate = step_seconds(now), None
    if before is not None and now.time > before.time:
        rows = (now.value("ps_cluster_rows_total") or 0.0) - (before.value("ps_cluster_rows_total") or 0.0)
        rate = rows / (now.time - before.time) if rows >= 0 else None
        recent = difference(step_seconds(before), seconds)
        seconds = recent if recent.total > 0 else seconds
    return ProcessView(
        now.endpoint.name,
        phase,
        True,
        step=int(now.value("ps_cluster_step") or 0),
        samples_per_second=rate,
        memory_bytes=memory_bytes(now),
        cores=cores,
        shares=shares_of(seconds),
    )


def shares_of(step_time: StepTime) -> dict[str, float] | None:
    """Of the time, by part; None without any."""
    total = step_time.total
    return {part: value / total for part, value in zip(PARTS, step_time.values())} if total > 0 else None


def _job_name(scraped: Sequence[Scraped]) -> str | None:
    for one in scraped:
        for labels, _ in one.labelled("ps_cluster_process_info"):
            return labels["job_name"]
    return None


def _float(value: float | str | None) -> float | None:
    return None if value is None else float(value)
