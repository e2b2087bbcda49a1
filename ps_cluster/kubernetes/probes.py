"""When a pod counts as started, ready and alive."""

from __future__ import annotations

from ps_cluster.kubernetes.run import Object

_START = {"periodSeconds": 5, "failureThreshold": 120}
"""Ten minutes: large images start slowly on a busy node."""
_READY = {"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3}
_ALIVE = {"periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 10}
"""Five minutes without an answer: what then still runs would hold the others up for ever."""


def of_server(port: str) -> Object:
    """Of a process that is of use as soon as it listens on `port`, and alive while it does."""
    asked = {"tcpSocket": {"port": port}}
    return {
        "startupProbe": {**asked, **_START},
        "readinessProbe": {**asked, **_READY},
        "livenessProbe": {**asked, **_ALIVE},
    }
