"""PS as a StatefulSet: they serve until they are deleted."""

from __future__ import annotations

from ps_cluster.kubernetes.commands import INDEX_VARIABLE
from ps_cluster.kubernetes.names import selector
from ps_cluster.kubernetes.pods import ps_template
from ps_cluster.kubernetes.run import Object, Run


def ps_stateful_set(run: Run) -> Object:
    """The PS; all start at once, each with its number."""
    template = ps_template(run, restart="Always")
    (container,) = template["spec"]["containers"]
    number = {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    container["env"] = [{"name": INDEX_VARIABLE, "valueFrom": number}, *container.get("env", [])]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": run.metadata(run.names.of("ps"), "ps"),
        "spec": {
            "serviceName": run.names.service,
            "podManagementPolicy": "Parallel",
            "replicas": run.job.cluster.ps,
            "selector": {"matchLabels": selector(run.job.name, "ps")},
            "template": template,
        },
    }
