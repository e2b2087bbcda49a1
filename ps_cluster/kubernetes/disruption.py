"""What a drained node has to wait for."""

from __future__ import annotations

from ps_cluster.kubernetes.names import selector
from ps_cluster.kubernetes.run import Object, Run


def ps_budget(run: Run) -> Object:
    """No PS is evicted while it serves: with one of them all go back to the last checkpoint. Workers may be: they write
    a checkpoint before they end."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": run.metadata(run.names.of("ps"), "ps"),
        "spec": {
            "minAvailable": run.job.cluster.ps,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(run.job.name, "ps")},
        },
    }
