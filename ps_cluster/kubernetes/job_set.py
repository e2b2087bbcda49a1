"""PS and workers as one JobSet, which ends the PS when the workers are done."""

from __future__ import annotations

from ps_cluster.kubernetes.jobs import job_spec, queue_label
from ps_cluster.kubernetes.run import Object, Run


def job_set(run: Run) -> Object:
    """Admitted as a whole by a queue. It makes the headless Service itself."""
    components = ("ps", "worker") if run.job.cluster.ps else ("worker",)
    metadata = run.metadata(run.names.job)
    metadata["labels"] |= queue_label(run)
    specs = {component: job_spec(run, component) for component in components}
    ttls = {spec.pop("ttlSecondsAfterFinished") for spec in specs.values()}  # the JobSet's own
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {
                "enableDNSHostnames": True,
                "subdomain": run.names.service,
                "publishNotReadyAddresses": True,
            },
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["worker"]},
            "failurePolicy": {"maxRestarts": 0},  # the Jobs start lost pods again themselves
            "ttlSecondsAfterFinished": ttls.pop(),
            "replicatedJobs": [
                {"name": component, "replicas": 1, "template": {"spec": spec}} for component, spec in specs.items()
            ],
        },
    }
