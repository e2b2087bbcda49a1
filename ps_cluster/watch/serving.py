"""Begins to serve a process's figures as its job file says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from prometheus_client.registry import Collector

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership
from ps_cluster.job.resolve import JobFile
from ps_cluster.watch.endpoint import listening_place, note_endpoint
from ps_cluster.watch.health import Health
from ps_cluster.watch.process_figures import registry_of
from ps_cluster.watch.server import FiguresServer


def serve_figures(
    job_file: JobFile,
    membership: Membership,
    figures: Collector | None = None,
    health: Callable[[], Health] = Health,
) -> FiguresServer | None:
    """Serves until the process ends; None where the job file wants none.

    figures: beside those of the process. health: what `/healthz` says beside who this process is.

    Raises:
      RunError: the port of the job file is taken, or the output folder cannot be written.
    """
    settings, who = job_file.job.metrics, f"{membership.role} {membership.index}"
    if not settings.serve:
        return None
    registry = registry_of(job_file.job.name, membership.role, membership.index)
    if figures is not None:
        registry.register(figures)
    place = listening_place(membership, settings.port)
    identity = {"job": job_file.job.name, "role": membership.role, "index": membership.index}

    def with_identity() -> Health:
        found = health()
        return replace(found, told={**identity, **found.told})

    try:
        server = FiguresServer(place, registry, with_identity)
    except OSError as error:
        raise RunError(f"{who}: metrics.port: cannot listen on port {place[1]}: {error.strerror}") from None
    try:
        endpoint = note_endpoint(job_file.output, membership, server.port)
    except OSError as error:
        raise RunError(f"{who}: cannot write {error.filename}: {error.strerror}") from None
    print(f"{who} tells its figures at http://{endpoint.address}/metrics", flush=True)
    return server
