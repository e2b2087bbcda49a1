"""When a pod counts as started, ready and alive."""

from __future__ import annotations

from ps_cluster.kubernetes.run import Object

_HEALTH = {"httpGet": {"path": "/healthz", "port": "metrics"}}
_START = {"periodSeconds": 5, "failureThreshold": 120}
"""Ten minutes: large images start slowly on a busy node."""
_READY = {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3}
_ALIVE = {"periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 10}
"""Five minutes without an answer, or of 503: what then still runs would hold the others up for ever. A process that
waits within its limits answers 200 (`ps_cluster.watch.health`)."""


def of_ps(served: bool) -> Object:
    """Of use as soon as it listens for TensorFlow. `served`: whether it answers for its health, and for that of its
    TensorFlow server: connections alone are taken by the kernel of a process that hangs, too."""
    listens = {"tcpSocket": {"port": "tensorflow"}}
    return {
        "startupProbe": {**listens, **_START},
        "readinessProbe": {**listens, **_READY},
        "livenessProbe": {**(_HEALTH if served else listens), **_ALIVE},
    }


def of_worker(served: bool) -> Object:
    """Nobody asks a worker for anything but its health."""
    if not served:
        return {}
    return {
        "startupProbe": {**_HEALTH, **_START},
        "readinessProbe": {**_HEALTH, **_READY},
        "livenessProbe": {**_HEALTH, **_ALIVE},
    }
