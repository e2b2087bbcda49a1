"""What a run's objects are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ps_cluster.job.kubernetes_schema import Kubernetes
from ps_cluster.job.resolve import JobFile
from ps_cluster.job.schema import Job
from ps_cluster.kubernetes.names import Names, labels
from ps_cluster.kubernetes.sizing import Sizing

Object = dict[str, Any]
"""An object of Kubernetes, or a part of one, as plain values."""


@dataclass(frozen=True)
class Run:
    """A job as its pods see it, what they ask for, and how everything is called."""

    job_file: JobFile
    sizing: Sizing
    names: Names

    @property
    def job(self) -> Job:
        """The job."""
        return self.job_file.job

    @property
    def settings(self) -> Kubernetes:
        """Its section about Kubernetes."""
        return self.job_file.job.kubernetes

    def metadata(self, name: str, component: str | None = None) -> Object:
        """Of an object of this run."""
        namespace = {"namespace": self.settings.namespace} if self.settings.namespace else {}
        return {"name": name, **namespace, "labels": labels(self.job.name, component)}
