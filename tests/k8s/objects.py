"""Objects of Kubernetes as data, and what the cluster makes of them: pods, names, admitted connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """One pod as a controller makes it; `maker` is the name of the object that holds its template."""

    maker: str
    index: int
    spec: Object
    labels: Mapping[str, str]

    @property
    def host(self) -> str:
        """Name by which other pods of the namespace find it."""
        return f"{self.maker}-{self.index}.{self.spec['subdomain']}"

    @property
    def container(self) -> Object:
        (only,) = self.spec["containers"]
        return only

    @property
    def role(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def args(self) -> list[str]:
        """Arguments with what Kubernetes puts in for the index."""
        return [str(arg).replace("$(JOB_COMPLETION_INDEX)", str(self.index)) for arg in self.container["args"]]

    @property
    def command(self) -> list[str]:
        """Arguments of `ps-cluster`."""
        return self.args[self.args.index("ps-cluster") + 1 :]

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}

    @property
    def probes(self) -> dict[str, Object]:
        names = ("startupProbe", "readinessProbe", "livenessProbe")
        return {name: self.container[name] for name in names if name in self.container}


def of_kind(objects: Sequence[Object], kind: str) -> dict[str, Object]:
    """Objects of one kind, by name."""
    found = [one for one in objects if one["kind"] == kind]
    assert len({one["metadata"]["name"] for one in found}) == len(found)
    return {one["metadata"]["name"]: one for one in found}


def pods(objects: Sequence[Object]) -> list[Pod]:
    """All pods, in the order of their objects."""
    found = []
    for one in objects:
        name, spec = one["metadata"]["name"], one.get("spec", {})
        if one["kind"] == "Job":
            found += _pods(name, spec["template"], spec.get("completions", 1))
        elif one["kind"] in ("StatefulSet", "Deployment"):
            found += _pods(name, spec["template"], spec["replicas"])
        elif one["kind"] == "JobSet":
            for part in spec["replicatedJobs"]:
                of_part = part["template"]["spec"]
                made = _pods(f"{name}-{part['name']}-0", of_part["template"], of_part["completions"])
                for pod in made:  # the JobSet names the Service
                    assert pod.spec["subdomain"] == spec["network"]["subdomain"]
                found += made
    return found


def _pods(maker: str, template: Object, count: int) -> list[Pod]:
    return [Pod(maker, index, template["spec"], template["metadata"]["labels"]) for index in range(count)]


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a `matchLabels` selector, the only kind used here, selects a pod with these labels."""
    assert set(selector) <= {"matchLabels"}, selector
    return selector.get("matchLabels", {}).items() <= labels.items()


def admitted(
    objects: Sequence[Object],
    source: Mapping[str, str],
    target: Mapping[str, str],
    port: int,
    namespace: Mapping[str, str] | None = None,
) -> bool:
    """Whether the policies let a pod with labels `source` connect to `target`'s TCP port.

    namespace: labels of the source's namespace; None: the target's own.
    """
    policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy").values()]
    policies = [spec for spec in policies if selects(spec["podSelector"], target) and "Ingress" in spec["policyTypes"]]
    return not policies or any(
        any(_is_peer(peer, source, namespace) for peer in rule["from"])
        and any(one["port"] <= port <= one.get("endPort", one["port"]) for one in rule["ports"])
        for spec in policies
        for rule in spec["ingress"]
    )


def _is_peer(peer: Object, source: Mapping[str, str], namespace: Mapping[str, str] | None) -> bool:
    assert set(peer) in ({"podSelector"}, {"namespaceSelector"}), peer
    if "namespaceSelector" in peer:
        return namespace is not None and selects(peer["namespaceSelector"], namespace)
    return namespace is None and selects(peer["podSelector"], source)


def mount_of(pod: Pod, path: str) -> Object | None:
    """The mount that a path of the container lies in."""
    mounts = [one for one in pod.container["volumeMounts"] if f"{path}/".startswith(f"{one['mountPath']}/")]
    return max(mounts, key=lambda one: len(one["mountPath"]), default=None)


def writable(pod: Pod, path: str) -> bool:
    mount = mount_of(pod, path)
    return mount is not None and not mount.get("readOnly", False)
