"""PS and workers as Indexed Jobs: the completion index of a pod is its index in the cluster."""

from __future__ import annotations

from ps_cluster.errors import RESTART
from ps_cluster.kubernetes.names import QUEUE_LABEL
from ps_cluster.kubernetes.pods import ps_template, worker_template
from ps_cluster.kubernetes.quantities import seconds_of
from ps_cluster.kubernetes.run import Object, Run

WRONG_INPUT = 2
"""Exit code of a process whose job file or data are wrong."""


def ps_job(run: Run) -> Object:
    """The PS."""
    return _job(run, "ps", job_spec(run, "ps"))


def worker_job(run: Run) -> Object:
    """The workers; how this Job ends is how the run went."""
    return _job(run, "worker", job_spec(run, "worker"))


def job_spec(run: Run, component: str) -> Object:
    """Of a Job of PS or workers."""
    count = run.job.cluster.ps if component == "ps" else run.job.cluster.workers
    return {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        # Of each pod by itself: of all together, the pause before a pod is started again would double with every pod
        # that has missed the lost one, and soon be ten minutes.
        "backoffLimitPerIndex": run.settings.retries,
        "maxFailedIndexes": 0,
        "podFailurePolicy": failure_policy(component),
        "activeDeadlineSeconds": seconds_of(run.settings.deadline_minutes),
        "ttlSecondsAfterFinished": seconds_of(run.settings.ttl_minutes),
        "template": ps_template(run) if component == "ps" else worker_template(run),
    }


def failure_policy(container: str) -> Object:
    """A wrong job file fails at once. Pods that were evicted, and those that ended because another was lost, come
    again without being counted; the one that was lost is counted itself."""
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": _exit_code(container, WRONG_INPUT)},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "Ignore", "onExitCodes": _exit_code(container, RESTART)},
        ]
    }


def queue_label(run: Run) -> Object:
    """The label by which Kueue admits the object."""
    return {QUEUE_LABEL: run.settings.queue} if run.settings.queue else {}


def _job(run: Run, component: str, spec: Object) -> Object:
    metadata = run.metadata(run.names.of(component), component)
    metadata["labels"] |= queue_label(run)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _exit_code(container: str, code: int) -> Object:
    return {"containerName": container, "operator": "In", "values": [code]}
