"""What is done with a run in the cluster: begin, stop, resume, scale."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ps_cluster.errors import RunError, UserError
from ps_cluster.job.edit_text import with_values
from ps_cluster.job.load import check_document
from ps_cluster.job.problems import Path as Place
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.yaml_text import parse
from ps_cluster.kubernetes.cluster_run import ClusterRun, end_of
from ps_cluster.kubernetes.follow import INDEX_LABEL
from ps_cluster.kubernetes.kubectl import selected
from ps_cluster.kubernetes.names import JOB_FOLDER, selector
from ps_cluster.kubernetes.pods import grace_seconds
from ps_cluster.kubernetes.quantities import memory as quantity
from ps_cluster.kubernetes.render import run_objects
from ps_cluster.kubernetes.run import Object

_MIB = 2**20


def begin(run: ClusterRun, objects: list[Object]) -> str:
    """Applies a run's objects; what one of the same name that has ended left of pods goes first.

    Returns:
      What kubectl says.

    Raises:
      UserError: a run of this name goes on.
      RunError: the cluster refuses.
    """
    run.check_ended()
    run.remove_pods(60.0)
    run.remove_job_file()
    return run.apply(objects)


def stop(run: ClusterRun) -> None:
    """Returns when all pods have ended, the workers after a last checkpoint; worker 0's words are shown meanwhile.

    Raises:
      UserError: there is no such run.
      RunError: the pods did not end in time, or the cluster refuses.
    """
    grace = grace_seconds(run.job_file().job)
    first = selected({**selector(run.job, "worker"), INDEX_LABEL: "0"})
    words = run.kubectl.popen(
        "logs", "--follow", "--tail=0", "--selector", first, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        run.remove_pods(grace)
    finally:
        words.terminate()
        words.wait()


def resume(run: ClusterRun) -> str:
    """Makes the pods again, with the job file that the run was begun with. Returns what kubectl says.

    Raises:
      UserError: there is no such run, it goes on, or it is complete.
      RunError: the cluster refuses.
    """
    job_file, jobset = run.job_file(), run.is_jobset()
    run.check_ended()
    workers = run.workers()
    end = end_of(workers) if workers is not None else None
    if end is not None and end.complete:
        raise UserError(f"{run.job}: expected a run that was stopped or has failed, found one that is complete")
    objects = run_objects(job_file, jobset)
    run.remove_pods(60.0)
    return run.apply(objects)


def scale(run: ClusterRun, ps: int | None, workers: int | None) -> str:
    """Stops the run and makes its pods again in other numbers. Returns what kubectl says.

    Raises:
      UserError: there is no such run, or the job cannot have these numbers.
      RunError: the pods did not end in time, or the cluster refuses; where the job file then lies here, it says.
    """
    job_file, jobset = scaled(run.job_file(), ps, workers), run.is_jobset()
    objects = run_objects(job_file, jobset)
    stop(run)
    try:
        run.remove_job_file()
        return run.apply(objects)
    except RunError as error:
        kept = Path(f"{run.job}.job.yaml")
        kept.write_text(job_file.text, encoding="utf-8")
        raise RunError(f"{error} (the job file is kept in {kept}: ps-cluster launch {kept})") from None


def scaled(job_file: JobFile, ps: int | None, workers: int | None) -> JobFile:
    """The job file with other numbers of processes; of fewer PS each asks for more memory.

    Raises:
      UserError: the job cannot have them.
    """
    counts: dict[Place, object] = {
        ("cluster", name): count for name, count in (("ps", ps), ("workers", workers)) if count is not None
    }
    if ps is not None and workers is None:  # the default would follow the PS
        counts["cluster", "workers"] = job_file.job.cluster.workers
    if workers is not None and ps is None:
        counts["cluster", "ps"] = job_file.job.cluster.ps
    before, memory = job_file.job.cluster.ps, job_file.job.kubernetes.ps.memory
    if ps is not None and 0 < ps < before and memory is not None:  # fewer hold as much as all before
        counts["kubernetes", "ps", "memory"] = -(-memory * before // ps // _MIB) * _MIB
    text = with_values(job_file.text, counts)
    job, problems = check_document(parse(text), JOB_FOLDER)
    if job is None:
        raise UserError("\n".join(f"scale: expected {problem.expected}, found {problem.found}" for problem in problems))
    size = f" of {quantity(job.kubernetes.ps.memory)}" if job.kubernetes.ps.memory else ""
    print(f"{job.name}: {job.cluster.ps} PS{size}, {job.cluster.workers} workers", file=sys.stderr)
    return JobFile(job=job, path=job_file.path, folder=JOB_FOLDER, text=text)
