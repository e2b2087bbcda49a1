"""What the pods are not allowed to do: the restricted Pod Security Standard and more."""

from __future__ import annotations

from ps_cluster.kubernetes.names import USER
from ps_cluster.kubernetes.run import Object


def pod_security() -> Object:
    """Of a pod: not root; the group makes volumes writable."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Object:
    """Of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


NO_TOKEN: Object = {"automountServiceAccountToken": False, "enableServiceLinks": False}
"""Pods need nothing of Kubernetes' API."""
