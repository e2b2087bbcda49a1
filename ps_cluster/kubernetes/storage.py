"""The volume that all pods share."""

from __future__ import annotations

from ps_cluster.kubernetes.names import labels
from ps_cluster.kubernetes.quantities import memory
from ps_cluster.kubernetes.run import Object, Run
from ps_cluster.kubernetes.volumes import claim_name


def claim(run: Run) -> Object | None:
    """The claim, where the job file wants one to be made. Not of the run's labels, by which a run is removed."""
    told = run.settings.storage
    if told.size is None or run.settings.object_store is not None:
        return None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **run.metadata(claim_name(told, run.job.name)),
            "labels": labels(run.names.of("storage"), "storage"),
        },
        "spec": {
            "accessModes": [told.access],
            **({"storageClassName": told.storage_class} if told.storage_class else {}),
            "resources": {"requests": {"storage": memory(told.size)}},
        },
    }
