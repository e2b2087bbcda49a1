"""The job file as the pods see it: its paths in the volume that they share, its ports fixed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from ps_cluster.errors import UserError
from ps_cluster.job.edit_text import with_values
from ps_cluster.job.load import check_document
from ps_cluster.job.problems import Path, Problem, path_text, quoted
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.schema import Job
from ps_cluster.job.yaml_text import parse
from ps_cluster.kubernetes.names import JOB_FILE, JOB_FOLDER, METRICS_PORT


def pod_job(job_file: JobFile, values: Mapping[Path, object] | None = None) -> JobFile:
    """The job file with every path absolute in the pods; addresses such as s3:// stay.

    values: further ones to be set.

    Raises:
      UserError: the job cannot run in pods as it is; one line for each problem.
    """
    job = job_file.job
    storage, store = job.kubernetes.storage, job.kubernetes.object_store
    problems = list(_addresses_of_its_own(job))
    changed: dict[Path, object] = dict(values or {})
    for path, place in _places(job):
        if "://" in place:
            continue
        absolute = posixpath.normpath(posixpath.join(storage.folder, place))
        if store is not None and path != ("output",):
            problems.append(Problem(path, "an address such as s3://bucket/folder beside 'object_store'", quoted(place)))
        elif not absolute.startswith(f"{storage.folder}/"):
            expected = f"a path in the volume {storage.folder}, or an address"
            problems.append(Problem(path, expected, quoted(place)))
        elif absolute != place:
            changed[path] = absolute
    if store is not None and job.checkpoint.folder is None:
        expected = "an address such as s3://bucket/folder beside 'object_store'"
        problems.append(Problem(("checkpoint", "folder"), expected, "none"))
    if problems:
        raise UserError("\n".join(_line(job_file.path, problem) for problem in problems))
    if job.metrics.serve and job.metrics.port is None:
        changed["metrics", "port"] = METRICS_PORT  # a free one could not be named to whoever reads the figures
    text = with_values(job_file.text, changed)
    in_pods, wrong = check_document(parse(text), JOB_FOLDER)
    if in_pods is None:  # such as samples that lie in the output folder only there
        raise UserError("\n".join(_line(job_file.path, problem) for problem in wrong))
    return JobFile(job=in_pods, path=JOB_FILE, folder=JOB_FOLDER, text=text)


def _places(job: Job) -> Iterator[tuple[Path, str]]:
    for side in ("train", "test"):
        for index, place in enumerate(getattr(job.data, side)):
            yield ("data", side, index), place
    for number, rule in enumerate(job.data.sampling.rules if job.data.sampling else ()):
        popularity = getattr(getattr(rule, "bands", None), "popularity", None)
        if isinstance(popularity, str):
            yield ("data", "sampling", "rules", number, "bands", "popularity"), popularity
    if job.checkpoint.folder is not None:
        yield ("checkpoint", "folder"), job.checkpoint.folder
    if job.checkpoint.warm_start is not None:
        yield ("checkpoint", "warm_start", "from"), job.checkpoint.warm_start.folder
    yield ("output",), job.output


def _addresses_of_its_own(job: Job) -> Iterator[Problem]:
    for name in ("ps_addresses", "worker_addresses", "rendezvous_address"):
        if getattr(job.cluster, name) is not None:
            yield Problem(("cluster", name), "no addresses, which Kubernetes gives", "some")


def _line(path: str, problem: Problem) -> str:
    return f"{path}: {path_text(problem.path)}: expected {problem.expected}, found {problem.found}"
