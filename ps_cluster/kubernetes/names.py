"""Names, labels, ports and folders of a job's objects: each is said once, here."""

from __future__ import annotations

from dataclasses import dataclass

from ps_cluster import __version__
from ps_cluster.job.membership import Role

TENSORFLOW_PORT = 2222
RENDEZVOUS_PORT = 2223
METRICS_PORT = 2224
SERVING_GRPC_PORT = 8500
SERVING_HTTP_PORT = 8501
FIRST_FREE_PORT = 1024
"""Horovod's ring listens on ports that the kernel chooses, from here on."""

JOB_FOLDER = "/job"
JOB_FILE = "/job/job.yaml"
DONE_FILE = "/tmp/training-is-over"
"""In a PS pod: worker 0 has it written when the tables are needed no more."""

USER = 10001
"""The image's, which is not root."""

NAME, INSTANCE, COMPONENT, VERSION = (
    f"app.kubernetes.io/{word}" for word in ("name", "instance", "component", "version")
)
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class Names:
    """Names of one job's objects.

    Attributes:
      job: the job's name, which begins every name.
      jobset: whether a JobSet makes the pods, which puts the number of the Job into their names.
    """

    job: str
    jobset: bool = False

    @property
    def service(self) -> str:
        """Headless Service: the last part of each pod's host name."""
        return self.job

    @property
    def config_map(self) -> str:
        """ConfigMap with the job file."""
        return f"{self.job}-job"

    def of(self, component: str) -> str:
        """Name of the object that makes the pods of a component."""
        return f"{self.job}-{component}"

    def host(self, role: Role, index: int) -> str:
        """Name by which the pods of the namespace find one of the job's."""
        number = "0-" if self.jobset else ""
        return f"{self.job}-{role}-{number}{index}.{self.service}"

    def addresses(self, role: Role, count: int) -> list[str]:
        """Addresses, "host:port", of all processes of a role."""
        return [f"{self.host(role, index)}:{TENSORFLOW_PORT}" for index in range(count)]


def selector(job: str, component: str | None = None) -> dict[str, str]:
    """Labels that select a job's pods, or those of one component."""
    labels = {NAME: "ps-cluster", INSTANCE: job}
    return labels if component is None else {**labels, COMPONENT: component}


def labels(job: str, component: str | None = None) -> dict[str, str]:
    """Labels of an object of a job."""
    return {**selector(job, component), VERSION: __version__}
