"""The figures of a diagnosis: from a report, from the events of a run, or from its processes as they work."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ps_cluster.errors import UserError
from ps_cluster.report.json_report import Report
from ps_cluster.report.status import Status
from ps_cluster.train.step_time import PARTS, StepTime
from ps_cluster.watch.diagnosis import Figures
from ps_cluster.watch.endpoint import Endpoint
from ps_cluster.watch.scrape import Scraped, scrape
from ps_cluster.watch.used import Used, used_between

_LONGEST_SECONDS = 120.0  # that a step is waited for


def of_report(report: Report, where: str) -> Figures:
    """Raises UserError when the run has no step times; `where`: the report's place."""
    if not report.timed_steps:
        raise UserError(f"{where}: expected a run of two steps at least, found step times of none")
    times = [StepTime(**one.model_dump()) for one in report.step_time]
    if not times or not all(one.total > 0 for one in times):
        raise UserError(f"{where}: step_time: expected seconds of every worker's steps, found none of a worker")
    return Figures(
        step_time=times,
        steps=report.timed_steps,
        processes=[Used(**one.model_dump()) for one in report.processes],
        settings=report.settings,
        block=report.block,
        mfu=report.mfu,
        exchanged_bytes=report.exchanged_bytes,
        dense_parameters=report.dense_parameters,
    )


def of_running(endpoints: Sequence[Endpoint], status: Status, seconds: float) -> Figures:
    """From two looks at the processes, `seconds` apart, or as far as it takes until every worker has done a step.

    status: of the events so far; may be empty.

    Raises:
      UserError: a worker does not answer, or no step ends within two minutes.
    """
    before = scrape(endpoints)
    _check_workers(before)
    begun = time.monotonic()
    while True:
        time.sleep(seconds)
        after = scrape(endpoints)
        _check_workers(after)
        step_time, steps = _between(before, after)
        if steps and all(one.total > 0 for one in step_time):
            break
        if time.monotonic() - begun > _LONGEST_SECONDS:
            raise UserError(f"expected the workers to take steps, found none for {_LONGEST_SECONDS:.0f} s")
    start, step = status.last.get("start", {}), status.last.get("step", {})
    told = {name: _told(after, name) for name in ("ps_cluster_mfu_ratio", "ps_cluster_step_exchanged_bytes")}
    exchanged = told["ps_cluster_step_exchanged_bytes"]
    return Figures(
        step_time=step_time,
        steps=steps,
        processes=used_between(before, after),
        settings=start.get("settings", {}),
        block=start.get("block"),
        mfu=told["ps_cluster_mfu_ratio"] if told["ps_cluster_mfu_ratio"] is not None else step.get("mfu"),
        exchanged_bytes=int(exchanged) if exchanged is not None else None,
        dense_parameters=start.get("dense_parameters"),
    )


def step_seconds(scraped: Scraped) -> StepTime:
    """Of a worker, since it began."""
    parts = {labels["part"]: value for labels, value in scraped.labelled("ps_cluster_step_seconds_total")}
    return StepTime(**{part: parts.get(part, 0.0) for part in PARTS})


def difference(before: StepTime, after: StepTime) -> StepTime:
    """What went by between two looks; all of `after` where the process was started anew."""
    parts = [b - a for a, b in zip(before.values(), after.values())]
    return after if min(parts) < 0 else StepTime(*parts)


def _between(before: Sequence[Scraped], after: Sequence[Scraped]) -> tuple[list[StepTime], int]:
    workers = [(was, now) for was, now in zip(before, after) if now.endpoint.role == "worker"]
    steps = [(now.value(_STEPS) or 0) - (was.value(_STEPS) or 0) for was, now in workers]
    return [difference(step_seconds(was), step_seconds(now)) for was, now in workers], int(min(steps, default=0))


_STEPS = "ps_cluster_steps_total"


def _told(scraped: Sequence[Scraped], name: str) -> float | None:
    return next((value for one in scraped if (value := one.value(name)) is not None), None)


def _check_workers(scraped: Sequence[Scraped]) -> None:
    silent = [one for one in scraped if one.endpoint.role != "ps" and one.problem is not None]
    if silent:
        one = silent[0]
        raise UserError(f"{one.endpoint.name} at {one.endpoint.address}: expected its figures, found: {one.problem}")
    if not any(one.endpoint.role == "worker" for one in scraped):
        raise UserError("expected a worker that tells its figures, found none")


def settings_of(job: Any) -> Mapping[str, Any]:
    """The settings of a job that decide about speed, by their path."""
    paths = (
        "training.batch_size",
        "training.sparse_updates",
        "training.log_every_steps",
        "data.reader",
        "data.decode_threads",
        "data.prefetch_batches",
        "data.stripe_slices",
        "embeddings.transport",
        "model.fused",
        "model.precision",
        "checkpoint.every_steps",
        "checkpoint.deltas",
        "cluster.ps",
        "cluster.workers",
    )
    found = {path: getattr(getattr(job, path.split(".")[0]), path.split(".")[1], None) for path in paths}
    return {path: value for path, value in found.items() if value is not None}
