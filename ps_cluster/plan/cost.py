"""What the job costs, where prices are given."""

from __future__ import annotations

from collections.abc import Mapping

from ps_cluster.plan.figure import Figure, figure
from ps_cluster.plan.types import Facts


def cost_figures(
    facts: Facts, ps: int, server: Mapping[str, Figure], worker: Mapping[str, Figure], seconds: Figure
) -> dict[str, Figure]:
    """Per hour, and for the whole training; nothing without a price."""
    wishes = facts.wishes
    if wishes.price_gib_hour is None and wishes.price_core_hour is None:
        return {}
    hour = figure(
        f"{wishes.currency}/h",
        "(ps * ps_bytes + workers * worker_bytes) / 2 ** 30 * price_gib_hour "
        "+ (ps * ps_cores + workers * worker_cores) * price_core_hour",
        "of the memory and cores that are asked for",
        ps=ps, ps_bytes=server["memory_request_bytes"], workers=facts.cluster.workers,
        worker_bytes=worker["memory_request_bytes"], price_gib_hour=wishes.price_gib_hour or 0.0,
        ps_cores=wishes.ps_cores, worker_cores=wishes.worker_cores, price_core_hour=wishes.price_core_hour or 0.0,
    )  # fmt: skip
    return {
        "per_hour": hour,
        "training": figure(wishes.currency, "per_hour * seconds / 3600", per_hour=hour, seconds=seconds),
    }
