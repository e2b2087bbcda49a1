"""The manifests below k8s/ as data."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

K8S = Path(__file__).resolve().parents[2] / "k8s"
FOLDERS = ("base", "storage", "serving")


def kustomization(folder: str) -> dict[str, Any]:
    return yaml.safe_load((K8S / folder / "kustomization.yaml").read_text(encoding="utf-8"))


@functools.cache
def documents(*folders: str) -> list[dict[str, Any]]:
    """Every object of the folders, in the order in which their kustomizations name the files."""
    files = [K8S / folder / name for folder in folders for name in kustomization(folder)["resources"]]
    return [one for path in files for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def generated(folder: str) -> list[dict[str, Any]]:
    """The ConfigMaps that a kustomization makes of files."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": one["name"], "labels": one["options"]["labels"]},
            **({"immutable": True} if one["options"].get("immutable") else {}),
            "data": {name: (K8S / folder / name).read_text(encoding="utf-8") for name in one["files"]},
        }
        for one in kustomization(folder).get("configMapGenerator", [])
    ]
