"""Command lines of the pods' processes."""

from __future__ import annotations

import posixpath

from ps_cluster.kubernetes.names import DONE_FILE, JOB_FILE, RENDEZVOUS_PORT
from ps_cluster.kubernetes.run import Run

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""Set by Kubernetes in each pod of an Indexed Job."""


def ps_command(run: Run) -> list[str]:
    """Of PS `$(JOB_COMPLETION_INDEX)`."""
    until = ["--until-done", DONE_FILE] if run.settings.ps.kind == "Job" else []
    return ["ps-cluster", "ps", JOB_FILE, *_place(run), *_joined(until)]


def worker_command(run: Run) -> list[str]:
    """Of worker `$(JOB_COMPLETION_INDEX)`; started again, it goes on from the newest checkpoint."""
    report = posixpath.join(run.job_file.output, "report.json")
    done = ["--done-file", DONE_FILE] if run.job.cluster.ps and run.settings.ps.kind == "Job" else []
    return [
        "ps-cluster",
        "worker",
        JOB_FILE,
        "--resume",
        *_joined(["--report", report]),
        *_place(run),
        *_joined(done),
    ]


def evaluator_command() -> list[str]:
    """Of the evaluator."""
    return ["ps-cluster", "evaluate", JOB_FILE]


def _place(run: Run) -> list[str]:
    cluster, names = run.job.cluster, run.names
    flags = ["--ps", ",".join(names.addresses("ps", cluster.ps))] if cluster.ps else []
    flags += ["--workers", ",".join(names.addresses("worker", cluster.workers))]
    if cluster.workers > 1:
        flags += ["--rendezvous", f"{names.host('worker', 0)}:{RENDEZVOUS_PORT}"]
    return _joined([*flags, "--index", f"$({INDEX_VARIABLE})"])


def _joined(flags: list[str]) -> list[str]:
    """`--flag=value` for each pair."""
    return [f"{flag}={value}" for flag, value in zip(flags[::2], flags[1::2])]
