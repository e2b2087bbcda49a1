"""`ps-cluster render|launch|logs|stop|resume|scale`: runs on Kubernetes."""

from __future__ import annotations

from ps_cluster.cli.cluster import launch, logs, render, resume, scale, stop

COMMANDS = (render, launch, logs, stop, resume, scale)
