"""A pod as its maker makes it: its names, labels, and environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ps_cluster.errors import UserError
from tests.pods.objects import Cluster, Variable, Workload

_INDEX = "batch.kubernetes.io/job-completion-index"
_PATH = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


@dataclass(frozen=True)
class Pod:
    """number: completion index or ordinal. attempt: how many of this host name there were before."""

    workload: Workload
    number: int
    attempt: int
    address: str

    @property
    def host(self) -> str:
        """Host name, the same for every attempt: what people call the pod here."""
        template = self.workload.template
        if self.workload.kind == "Pod":
            return template.hostname or self.workload.name
        return f"{self.workload.name}-{self.number}"

    @property
    def name(self) -> str:
        """Of this very pod, as Kubernetes would make it of chance letters."""
        fixed = self.workload.kind in ("Pod", "StatefulSet")
        return self.host if fixed else f"{self.host}-{self.attempt:05d}"

    @property
    def labels(self) -> dict[str, str]:
        kind, name = self.workload.kind, self.workload.name
        more = {}
        if kind == "Job":
            more = {"batch.kubernetes.io/job-name": name, "job-name": name}
            if self._indexed:
                more[_INDEX] = str(self.number)
        elif kind == "StatefulSet":
            more = {"apps.kubernetes.io/pod-index": str(self.number), "statefulset.kubernetes.io/pod-name": self.name}
        return {**self.workload.template.labels, **more}

    @property
    def annotations(self) -> dict[str, str]:
        more = {_INDEX: str(self.number)} if self._indexed else {}
        return {**self.workload.template.annotations, **more}

    @property
    def _indexed(self) -> bool:
        return self.workload.rules is not None and self.workload.rules.indexed

    def field(self, path: str) -> str | None:
        """What the downward API says of a field; None for one that it does not know."""
        if found := _PATH.fullmatch(path):
            return (self.labels if found[1] == "labels" else self.annotations).get(found[2], "")
        return {
            "metadata.name": self.name,
            "metadata.namespace": self.workload.namespace,
            "metadata.uid": f"uid-of-{self.name}",
            "status.podIP": self.address,
            "status.podIPs": self.address,
            "status.hostIP": "127.0.0.1",
            "spec.nodeName": "this-machine",
        }.get(path)


def environment(pod: Pod, cluster: Cluster, image: Mapping[str, str]) -> dict[str, str]:
    """Variables of the pod's container. image: those that the image sets.

    Raises:
      UserError: one names what is not there.
    """
    made: dict[str, str] = {**image, "HOSTNAME": pod.host}
    variables = list(pod.workload.template.container.variables)
    told: dict[str, str] = {}
    if pod._indexed and "JOB_COMPLETION_INDEX" not in {one.name for one in variables}:
        variables.insert(0, Variable("JOB_COMPLETION_INDEX", field_path=f"metadata.annotations['{_INDEX}']"))
    for one in variables:
        where = f"{pod.workload.kind} {pod.workload.name}: env {one.name}"
        if one.config_key is not None:
            files = cluster.config_maps.get((pod.workload.namespace, one.config_key[0]), {})
            if one.config_key[1] not in files:
                raise UserError(f"{where}: there is no key {one.config_key[1]} in ConfigMap {one.config_key[0]}")
            told[one.name] = files[one.config_key[1]]
        elif one.field_path is not None:
            value = pod.field(one.field_path)
            if value is None:
                raise UserError(f"{where}: the field {one.field_path} is not emulated here")
            told[one.name] = value
        else:
            told[one.name] = expanded(one.value or "", told)
    return {**made, **told}


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where there is such a variable; `$$` is one `$`."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", value, text)
