"""A pod that scores the test rows with the newest checkpoint."""

from __future__ import annotations

from ps_cluster.errors import UserError
from ps_cluster.kubernetes.commands import evaluator_command
from ps_cluster.kubernetes.names import labels
from ps_cluster.kubernetes.placement import nodes
from ps_cluster.kubernetes.pods import container_of_image, pod_of_image, resources
from ps_cluster.kubernetes.quantities import seconds_of
from ps_cluster.kubernetes.run import Object, Run


def evaluator_job(run: Run) -> Object:
    """Beside a run or after it; it reads the run's ConfigMap and volume. Not of the run's labels: it may not reach the
    PS.

    Raises:
      UserError: the job file says nothing of it.
    """
    asked = run.settings.evaluator
    if asked is None:
        raise UserError("kubernetes.evaluator: expected the memory of the evaluator's pod, found no such section")
    name = run.names.of("evaluator")
    container = container_of_image(run, "evaluator", evaluator_command(), resources(asked.memory, asked.cpu))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**run.metadata(name), "labels": labels(name, "evaluator")},
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": seconds_of(run.settings.deadline_minutes),
            "ttlSecondsAfterFinished": seconds_of(run.settings.ttl_minutes),
            "template": {
                "metadata": {"labels": labels(name, "evaluator")},
                "spec": {**nodes(run), **pod_of_image(run, container, "Never")},
            },
        },
    }
