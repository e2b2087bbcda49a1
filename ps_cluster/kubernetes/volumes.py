"""Volumes of the pods: the job file, a folder for scratch files, and what they share."""

from __future__ import annotations

from ps_cluster.job.kubernetes_schema import Claim
from ps_cluster.kubernetes.names import JOB_FOLDER
from ps_cluster.kubernetes.run import Object, Run

_SCRATCH = "1Gi"


def volumes(run: Run) -> list[Object]:
    """Of every pod that runs the job's image."""
    return [
        {"name": "job", "configMap": {"name": run.names.config_map}},
        {"name": "storage", **_storage(run)},
        {"name": "tmp", "emptyDir": {"sizeLimit": _SCRATCH}},
    ]


def mounts(run: Run) -> list[Object]:
    """Where a container sees them."""
    return [
        {"name": "job", "mountPath": JOB_FOLDER, "readOnly": True},
        {"name": "storage", "mountPath": run.settings.storage.folder},
        {"name": "tmp", "mountPath": "/tmp"},
    ]


def claim_name(claim: Claim, job: str) -> str:
    """Name of the PersistentVolumeClaim."""
    return claim.name or job


def environment(run: Run) -> list[Object]:
    """Variables by which a container reaches the object store."""
    store = run.settings.object_store
    if store is None:
        return []
    found: list[Object] = []
    if store.endpoint is not None:
        found.append({"name": "AWS_ENDPOINT_URL", "value": store.endpoint})
    if store.region is not None:
        found.append({"name": "AWS_REGION", "value": store.region})
    if store.secret is not None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": store.secret, "key": name}}})
    return found


def _storage(run: Run) -> Object:
    if run.settings.object_store is not None:  # logs, TensorBoard's files and the export, which go with the pod
        return {"emptyDir": {}}
    return {"persistentVolumeClaim": {"claimName": claim_name(run.settings.storage, run.job.name)}}
