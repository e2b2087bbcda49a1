"""A job's view as text: a title and a table with one line for each process."""

from __future__ import annotations

from collections.abc import Sequence

from ps_cluster.report.text import age, count, duration, figure, size
from ps_cluster.train.step_time import PARTS
from ps_cluster.watch.job_view import JobView, ProcessView

_NAMES = {"all_reduce": "reduce", "checkpoint": "ckpt"}
HEADER = ["process", "state", "step", "samples/s", "memory", "cores", *(_NAMES.get(part, part) for part in PARTS)]


def title(job: JobView) -> str:
    """`Job clicks: training, step 1,200/5,000, 8,123 samples/s, loss 0.4312, AUC 0.7312, 0:42 left`"""
    parts = [job.state]
    if job.step is not None:
        parts.append(f"step {count(job.step)}" + (f"/{count(job.steps_total)}" if job.steps_total else ""))
    if job.samples_per_second is not None:
        parts.append(f"{count(job.samples_per_second)} samples/s")
    if job.loss is not None:
        parts.append(f"loss {figure(job.loss)}")
    if job.auc is not None:
        parts.append(f"AUC {figure(job.auc)}")
    if job.freshness_seconds is not None:
        parts.append(f"newest event {age(job.freshness_seconds)}")
    if job.remaining_seconds is not None and not job.has_ended:
        parts.append(f"{duration(job.remaining_seconds)} left")
    return f"Job {job.job}: {', '.join(parts)}" if job.job else f"Job: {', '.join(parts)}"


def cells(process: ProcessView) -> list[str]:
    """One line of the table, in the order of `HEADER`."""
    shares = [f"{process.shares[part]:.0%}" if process.shares else "-" for part in PARTS]
    return [
        process.name,
        process.state,
        "-" if process.step is None else count(process.step),
        "-" if process.samples_per_second is None else count(process.samples_per_second),
        "-" if process.memory_bytes is None else size(process.memory_bytes),
        "-" if process.cores is None else f"{process.cores:.2f}",
        *(shares if process.name.startswith("worker") else ["" for _ in shares]),
    ]


def lines(job: JobView) -> list[str]:
    """The view as plain lines; a process that does not answer says why behind the table's columns."""
    if not job.processes:
        return [title(job), "no process has told where it serves its figures"]
    return [title(job), *table(HEADER, [cells(process) for process in job.processes])]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side, the first two to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return [
        "  ".join(
            f"{cell:{width}}" if column < 2 else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in [header, *rows]
    ]
