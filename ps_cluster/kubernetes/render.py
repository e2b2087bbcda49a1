"""All objects of a job, in the order in which they are needed."""

from __future__ import annotations

from collections.abc import Callable

from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile
from ps_cluster.kubernetes.config_map import job_config_map
from ps_cluster.kubernetes.disruption import ps_budget
from ps_cluster.kubernetes.evaluator import evaluator_job
from ps_cluster.kubernetes.job_set import job_set
from ps_cluster.kubernetes.jobs import ps_job, worker_job
from ps_cluster.kubernetes.names import Names
from ps_cluster.kubernetes.network import ps_policy, service, worker_policy
from ps_cluster.kubernetes.pod_job import pod_job
from ps_cluster.kubernetes.run import Object, Run
from ps_cluster.kubernetes.serving import serving_objects
from ps_cluster.kubernetes.sizing import Sizing, sizes_left_open, sizing_of
from ps_cluster.kubernetes.stateful_set import ps_stateful_set
from ps_cluster.kubernetes.storage import claim


def run_objects(
    job_file: JobFile, jobset: bool = False, planned: Callable[[JobFile], Sizing] | None = None
) -> list[Object]:
    """Of a training run.

    Args:
      job_file: the job, as a person wrote it.
      jobset: one JobSet in place of two Jobs.
      planned: sizes of what the job file leaves open.

    Raises:
      UserError: the job cannot run in pods as it is.
    """
    run = run_of(job_file, jobset, planned)
    if jobset and run.settings.ps.kind == "StatefulSet":
        raise UserError(f"{job_file.path}: kubernetes.ps.kind: expected Job in a JobSet, found StatefulSet")
    has_ps = run.job.cluster.ps > 0
    found = [claim(run), job_config_map(run)]
    if not jobset:
        found.append(service(run))
    if has_ps:
        found += [ps_policy(run), ps_budget(run)]
    found.append(worker_policy(run))
    if jobset:
        found.append(job_set(run))
    else:
        if has_ps:
            found.append(ps_job(run) if run.settings.ps.kind == "Job" else ps_stateful_set(run))
        found.append(worker_job(run))
    return [one for one in found if one is not None]


def evaluator_objects(job_file: JobFile) -> list[Object]:
    """Of the evaluator. Raises UserError."""
    return [evaluator_job(_unsized(job_file))]


def model_server_objects(job_file: JobFile) -> list[Object]:
    """Of TF Serving. Raises UserError."""
    return serving_objects(_unsized(job_file))


def run_of(job_file: JobFile, jobset: bool = False, planned: Callable[[JobFile], Sizing] | None = None) -> Run:
    """What a run's objects are made from. Raises UserError."""
    pod_job(job_file)  # what is wrong with its paths is told before the samples are read
    sizing = sizing_of(job_file, planned)
    return Run(pod_job(job_file, sizes_left_open(job_file, sizing)), sizing, Names(job_file.job.name, jobset))


def _unsized(job_file: JobFile) -> Run:
    return Run(pod_job(job_file), Sizing(0, 0.0, 0, 0.0), Names(job_file.job.name))
