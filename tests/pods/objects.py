"""What a cluster is told to run, as far as it makes a difference on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.pods.job_rules import JobRules


@dataclass(frozen=True)
class Probe:
    """A question to a container. kind: exec, httpGet or tcpSocket; `command` of the first, `port` of the others."""

    kind: str
    command: tuple[str, ...] = ()
    path: str = "/"
    port: int = 0
    delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    failures: int = 3
    successes: int = 1


@dataclass(frozen=True)
class Variable:
    """Of the environment: a value, or a field of the pod, or a key of a ConfigMap (`map/key`)."""

    name: str
    value: str | None = None
    field_path: str | None = None
    config_key: tuple[str, str] | None = None


@dataclass(frozen=True)
class Mount:
    """A volume at a path of the container."""

    volume: str
    path: str
    read_only: bool


@dataclass(frozen=True)
class Volume:
    """kind: configMap, persistentVolumeClaim or emptyDir; source: name of the first two."""

    name: str
    kind: str
    source: str = ""


@dataclass(frozen=True)
class Container:
    """The one container of a pod. probes: by startupProbe, readinessProbe, livenessProbe. `memory_bytes`: its limit."""

    name: str
    argv: tuple[str, ...]
    variables: tuple[Variable, ...] = ()
    probes: Mapping[str, Probe] = field(default_factory=dict)
    memory_bytes: int | None = None
    read_only_root: bool = False
    mounts: tuple[Mount, ...] = ()
    message_path: str = "/dev/termination-log"
    message_from_log: bool = False


@dataclass(frozen=True)
class PodTemplate:
    """What all pods of a workload have in common. uid, gid: of its processes; fs_group: of its volumes."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    container: Container
    volumes: tuple[Volume, ...]
    always: bool
    """Whether a container that has ended is started again in its pod."""
    grace_seconds: int = 30
    hostname: str = ""
    subdomain: str = ""
    uid: int = 0
    gid: int = 0
    fs_group: int | None = None


@dataclass(frozen=True)
class Workload:
    """What makes pods. kind: Job, StatefulSet, Deployment or Pod; rules: of a Job."""

    kind: str
    name: str
    namespace: str
    template: PodTemplate
    replicas: int
    rules: JobRules | None = None


@dataclass(frozen=True)
class Expression:
    """A condition on a label. operator: In, NotIn, Exists, DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def meets(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        return (self.key in labels) == (self.operator == "Exists")


@dataclass(frozen=True)
class Selector:
    """Labels that select pods or namespaces; empty: all."""

    expressions: tuple[Expression, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether what has these labels is selected."""
        return all(one.meets(labels) for one in self.expressions)


@dataclass(frozen=True)
class Service:
    """A name for pods."""

    name: str
    namespace: str
    selector: Selector
    not_ready_too: bool


@dataclass(frozen=True)
class Peer:
    """Who may come in: pods of the policy's namespace, or of the selected ones."""

    pods: Selector
    namespaces: Selector | None


@dataclass(frozen=True)
class Rule:
    """peers: none: from everywhere. ports: first and last of each range of TCP, or a name; none: every port."""

    peers: tuple[Peer, ...]
    ports: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Policy:
    """Pods that it selects are reached by whom one of the rules lets in."""

    name: str
    namespace: str
    selector: Selector
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Budget:
    """So many of the selected pods have to stay ready, or may be missing."""

    name: str
    namespace: str
    selector: Selector
    min_available: int | None
    max_unavailable: int | None


@dataclass(frozen=True)
class Cluster:
    """All that was given. namespaces: labels of each. config_maps: files by (namespace, name)."""

    workloads: tuple[Workload, ...]
    services: tuple[Service, ...]
    policies: tuple[Policy, ...]
    budgets: tuple[Budget, ...]
    config_maps: Mapping[tuple[str, str], Mapping[str, str]]
    claims: frozenset[str]
    namespaces: Mapping[str, Mapping[str, str]]
