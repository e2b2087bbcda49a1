"""Pod templates of the PS and of the workers."""

from __future__ import annotations

import math

from ps_cluster.job.schema import Job
from ps_cluster.kubernetes.commands import ps_command, worker_command
from ps_cluster.kubernetes.names import RENDEZVOUS_PORT, TENSORFLOW_PORT, labels
from ps_cluster.kubernetes.placement import placement
from ps_cluster.kubernetes.probes import of_ps, of_worker
from ps_cluster.kubernetes.quantities import cores, memory
from ps_cluster.kubernetes.run import Object, Run
from ps_cluster.kubernetes.security import NO_TOKEN, container_security, pod_security
from ps_cluster.kubernetes.volumes import environment, mounts, volumes

GPU = "nvidia.com/gpu"
_TENSORFLOW = {"name": "tensorflow", "containerPort": TENSORFLOW_PORT}


def ps_template(run: Run, restart: str = "Never") -> Object:
    """Of a PS."""
    asked = resources(run.sizing.ps_memory_bytes, run.sizing.ps_cores)
    more = {"ports": [_TENSORFLOW, *_metrics(run)], **of_ps(run.job.metrics.serve)}
    container = container_of_image(run, "ps", ps_command(run), asked, more)
    return _template(run, "ps", container, restart)


def worker_template(run: Run) -> Object:
    """Of a worker."""
    ports = [_TENSORFLOW]
    if run.job.cluster.workers > 1:
        ports.append({"name": "rendezvous", "containerPort": RENDEZVOUS_PORT})
    asked = resources(run.sizing.worker_memory_bytes, run.sizing.worker_cores, run.settings.worker.gpus)
    more = {"ports": [*ports, *_metrics(run)], **of_worker(run.job.metrics.serve)}
    container = container_of_image(run, "worker", worker_command(run), asked, more)
    return _template(run, "worker", container, "Never")


def resources(memory_bytes: int, cpu: float, gpus: int = 0) -> Object:
    """All the memory that a pod may use is promised to it. No limit of cores: TensorFlow has a thread for each core of
    the node, and a limit would only make them wait for each other."""
    size = memory(memory_bytes)
    extra = {GPU: gpus} if gpus else {}
    return {"requests": {"cpu": cores(cpu), "memory": size, **extra}, "limits": {"memory": size, **extra}}


def grace_seconds(job: Job) -> int:
    """From SIGTERM on: the last checkpoint, and some seconds for all else."""
    return math.ceil(job.checkpoint.grace_seconds) + 30


def pod_of_image(run: Run, container: Object, restart: str) -> Object:
    """Fields of every pod of the job's image."""
    secret = run.settings.pull_secret
    return {
        "restartPolicy": restart,
        **NO_TOKEN,
        **({"imagePullSecrets": [{"name": secret}]} if secret else {}),
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": volumes(run),
    }


def container_of_image(run: Run, name: str, args: list[str], asked: Object, more: Object | None = None) -> Object:
    """Fields of every container of the job's image, whose entry point passes signals on; and `more`."""
    env = environment(run)
    return {
        "name": name,
        "image": run.settings.image,
        "args": args,
        **({"env": env} if env else {}),
        **(more or {}),
        "resources": asked,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(),
        "volumeMounts": mounts(run),
    }


def scraped(port: str, path: str) -> dict[str, str]:
    """Annotations by which Prometheus is often told what to read."""
    return {"prometheus.io/scrape": "true", "prometheus.io/port": port, "prometheus.io/path": path}


def _metrics(run: Run) -> list[Object]:
    metrics = run.job.metrics
    return [{"name": "metrics", "containerPort": metrics.port}] if metrics.serve else []


def _template(run: Run, component: str, container: Object, restart: str) -> Object:
    annotations = {"annotations": scraped(str(run.job.metrics.port), "/metrics")} if run.job.metrics.serve else {}
    return {
        "metadata": {"labels": labels(run.job.name, component), **annotations},
        "spec": {
            "subdomain": run.names.service,
            "terminationGracePeriodSeconds": grace_seconds(run.job),
            **placement(run, component),
            **pod_of_image(run, container, restart),
        },
    }
