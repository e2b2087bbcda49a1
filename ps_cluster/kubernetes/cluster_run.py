"""A run in the cluster: what of it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ps_cluster.errors import UserError
from ps_cluster.job.load import check_document
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.yaml_text import parse
from ps_cluster.kubernetes.config_map import JOBSET, KEY
from ps_cluster.kubernetes.kubectl import Kubectl, selected
from ps_cluster.kubernetes.names import JOB_FOLDER, Names, selector
from ps_cluster.kubernetes.run import Object
from ps_cluster.kubernetes.yaml_output import yaml_text

_SLACK_SECONDS = 120.0


@dataclass(frozen=True)
class ClusterRun:
    """The run of a job, by its name."""

    kubectl: Kubectl
    job: str

    def job_file(self) -> JobFile:
        """The job file that the run was begun with.

        Raises:
          UserError: there is no run, or the file is of another version of ps-cluster.
        """
        name = Names(self.job).config_map
        found = self.kubectl.object("configmap", name)
        if found is None:
            raise UserError(f"{self.job}: expected the name of a run, found no ConfigMap {name}{self._place()}")
        text = found["data"][KEY]
        job, problems = check_document(parse(text), JOB_FOLDER)
        if job is None:
            first = problems[0]
            raise UserError(f"ConfigMap {name}: expected {first.expected}, found {first.found}")
        return JobFile(job=job, path=f"configmap/{name}", folder=JOB_FOLDER, text=text)

    def workers(self) -> dict[str, Any] | None:
        """The Job of the workers; None where there is none."""
        return self._job("worker")

    def servers(self) -> dict[str, Any] | None:
        """The Job of the PS; None where there is none."""
        return self._job("ps")

    def _job(self, component: str) -> dict[str, Any] | None:
        found = self.kubectl.objects("jobs", selector(self.job, component))
        return found[0] if found else None

    def is_jobset(self) -> bool:
        """Whether the run is a JobSet."""
        found = self.kubectl.object("configmap", Names(self.job).config_map)
        return found is not None and JOBSET in found["metadata"].get("annotations", {})

    def check_ended(self) -> None:
        """Raises UserError when a run of this name goes on."""
        workers = self.workers()
        if workers is not None and end_of(workers) is None:
            raise UserError(
                f"{self.job}: expected no run of this name that goes on, found one{self._place()} "
                f"(ps-cluster stop {self.job})"
            )

    def apply(self, objects: list[Object]) -> str:
        """Returns what kubectl says. Raises RunError: the cluster refuses."""
        return self.kubectl.run("apply", "--filename", "-", given=yaml_text(objects))

    def remove_pods(self, grace_seconds: float) -> None:
        """Deletes what makes pods; returns when all of them have ended, for which they have `grace_seconds`.

        Raises:
          RunError: they did not within two minutes more, or the cluster refuses.
        """
        kinds = ["jobsets"] if self.is_jobset() else []  # first: else it would make its Jobs again
        limit = grace_seconds + _SLACK_SECONDS
        for kind in [*kinds, "jobs,statefulsets"]:
            wait = ["--cascade=foreground", "--wait", f"--timeout={limit:.0f}s"]
            chosen = selected(selector(self.job))
            self.kubectl.run("delete", kind, "--selector", chosen, *wait, seconds=limit + _SLACK_SECONDS)

    def remove_job_file(self) -> None:
        """Raises RunError: the cluster refuses."""
        self.kubectl.run("delete", "configmap", Names(self.job).config_map, "--ignore-not-found")

    def _place(self) -> str:
        return f" in namespace {self.kubectl.namespace}" if self.kubectl.namespace else ""


@dataclass(frozen=True)
class End:
    """How a Job ended."""

    complete: bool
    reason: str
    message: str


def end_of(job: dict[str, Any]) -> End | None:
    """None while it goes on."""
    for condition in job.get("status", {}).get("conditions", []):
        if condition["status"] == "True" and condition["type"] in ("Complete", "Failed"):
            return End(condition["type"] == "Complete", condition.get("reason", ""), condition.get("message", ""))
    return None
