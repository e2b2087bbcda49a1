"""How much memory and how many cores the pods of a job ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ps_cluster.errors import UserError
from ps_cluster.job.problems import Path
from ps_cluster.job.resolve import JobFile


@dataclass(frozen=True)
class Sizing:
    """What one pod of each kind asks for. Cores may be fractions."""

    ps_memory_bytes: int
    ps_cores: float
    worker_memory_bytes: int
    worker_cores: float


def sizing_of(job_file: JobFile, planned: Callable[[JobFile], Sizing] | None = None) -> Sizing:
    """The numbers of the job file; those that it leaves open from `planned`, which is asked only then.

    Raises:
      UserError: a number is in neither.
    """
    ps, worker = job_file.job.kubernetes.ps, job_file.job.kubernetes.worker
    told = {"worker.memory": worker.memory, "worker.cpu": worker.cpu}
    if job_file.job.cluster.ps:
        told |= {"ps.memory": ps.memory, "ps.cpu": ps.cpu}
    missing = [name for name, value in told.items() if value is None]
    if missing and planned is None:
        examples = {"memory": "a size such as 4GiB", "cpu": "a number of cores"}
        raise UserError(
            "\n".join(
                f"{job_file.path}: kubernetes.{name}: expected {examples[name.partition('.')[2]]}, found none"
                for name in missing
            )
        )
    plan = planned(job_file) if missing and planned is not None else Sizing(0, 0.0, 0, 0.0)
    return Sizing(
        ps.memory or plan.ps_memory_bytes,
        ps.cpu or plan.ps_cores,
        worker.memory or plan.worker_memory_bytes,
        worker.cpu or plan.worker_cores,
    )


def sizes_left_open(job_file: JobFile, sizing: Sizing) -> dict[Path, object]:
    """Sizes that the job file leaves open, by their place in it: a run that is started again asks for the same."""
    ps, worker = job_file.job.kubernetes.ps, job_file.job.kubernetes.worker
    found: dict[Path, object] = {}
    if worker.memory is None:
        found["kubernetes", "worker", "memory"] = sizing.worker_memory_bytes
    if worker.cpu is None:
        found["kubernetes", "worker", "cpu"] = sizing.worker_cores
    if job_file.job.cluster.ps and ps.memory is None:
        found["kubernetes", "ps", "memory"] = sizing.ps_memory_bytes
    if job_file.job.cluster.ps and ps.cpu is None:
        found["kubernetes", "ps", "cpu"] = sizing.ps_cores
    return found
