"""The job file, for the pods to read."""

from __future__ import annotations

from ps_cluster.kubernetes.run import Object, Run

KEY = "job.yaml"
JOBSET = "ps-cluster/jobset"
"""Annotation of the job file of a run that is a JobSet."""


def job_config_map(run: Run) -> Object:
    """Immutable: a changed job file cannot be slipped under a run that has begun."""
    metadata = run.metadata(run.names.config_map)
    if run.names.jobset:
        metadata["annotations"] = {JOBSET: "true"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": {KEY: run.job_file.text},
    }
