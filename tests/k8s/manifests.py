"""The manifests below k8s/ as data, and what the cluster makes of them: pods, names, admitted connections."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

K8S = Path(__file__).resolve().parents[2] / "k8s"
FOLDERS = ("base", "storage")


def kustomization(folder: str) -> dict[str, Any]:
    return yaml.safe_load((K8S / folder / "kustomization.yaml").read_text(encoding="utf-8"))


def documents(folder: str) -> list[dict[str, Any]]:
    """Every object of a folder, in the order in which its kustomization names the files."""
    files = [K8S / folder / name for name in kustomization(folder)["resources"]]
    return [one for path in files for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


@functools.cache
def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    """Objects of one kind, by name."""
    found = [one for folder in FOLDERS for one in documents(folder) if one["kind"] == kind]
    assert len({one["metadata"]["name"] for one in found}) == len(found)
    return {one["metadata"]["name"]: one for one in found}


@dataclass(frozen=True)
class Pod:
    """One pod of a Job, as the Job's controller makes it."""

    job: str
    index: int
    spec: dict[str, Any]
    labels: Mapping[str, str]

    @property
    def host(self) -> str:
        """Name by which other pods of the namespace find it."""
        return f"{self.job}-{self.index}.{self.spec['subdomain']}"

    @property
    def container(self) -> dict[str, Any]:
        (only,) = self.spec["containers"]
        return only

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


def pods(job: str) -> list[Pod]:
    spec = of_kind("Job")[job]["spec"]
    template = spec["template"]
    count = spec.get("completions", 1)
    return [Pod(job, index, template["spec"], template["metadata"]["labels"]) for index in range(count)]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a `matchLabels` selector, the only kind used here, selects a pod with these labels."""
    assert set(selector) == {"matchLabels"}, selector
    return selector["matchLabels"].items() <= labels.items()


def admitted(source: Mapping[str, str], target: Mapping[str, str], port: int) -> bool:
    """Whether the policies let a pod of this namespace with labels `source` connect to `target`'s TCP port."""
    policies = [one["spec"] for one in of_kind("NetworkPolicy").values()]
    policies = [spec for spec in policies if selects(spec["podSelector"], target) and "Ingress" in spec["policyTypes"]]
    return not policies or any(
        any(selects(peer["podSelector"], source) for peer in rule["from"] if set(peer) == {"podSelector"})
        and any(one["port"] <= port <= one.get("endPort", one["port"]) for one in rule["ports"])
        for spec in policies
        for rule in spec["ingress"]
    )
