"""A plan as plain values for JSON: every number with its unit, formula and inputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from ps_cluster.plan import figure as figures
from ps_cluster.plan.figure import Figure, to_json
from ps_cluster.plan.plan import Plan
from ps_cluster.plan.types import Facts
from ps_cluster.plan.what_if import Variant

FORMAT_VERSION = 1
WHAT_IF = {
    "rows": "rows of all tables",
    "ps_memory_request_bytes": "memory request of a PS",
    "ps_bytes_per_step": "bytes of a PS in a step",
    "checkpoint_bytes": "bytes of a checkpoint",
    "step_seconds": "seconds of a step",
}


def document(facts: Facts, plan: Plan, changed: Sequence[Variant]) -> dict[str, Any]:
    """The whole plan."""
    return {
        "format_version": FORMAT_VERSION,
        "job": facts.job,
        "verdicts": list(plan.verdicts),
        "ps": plan.ps,
        "workers": facts.cluster.workers,
        "horizon": {"rows": facts.horizon.rows, "days": facts.horizon.days, "source": facts.horizon.source},
        "constants": {"source": facts.constants_source, "values": dict(facts.constants)},
        "tables": {name: _section(section) for name, section in plan.tables.items()},
        "server": _section(plan.server),
        "worker": _section(plan.worker),
        "network": _section(plan.network),
        "checkpoint": _section(plan.checkpoint),
        "time": _section(plan.time),
        "cost": _section(plan.cost),
        "rows_by_day": [
            {"day": day, "rows": {name: round(one.value) for name, one in rows.items()}} for day, rows in plan.by_day
        ],
        "hot_ids": {
            name: [[key, share] for key, share in load.hot[:10]] for name, load in facts.loads.items() if load.hot
        },
        "what_if": [{"change": "as it is", **summary(plan)}]
        + [{"change": one.change, **summary(one.plan)} for one in changed],
        "functions": {
            name: " ".join((inspect.getdoc(function) or "").split())
            for name, function in figures.FUNCTIONS.items()
            if "_" in name
        },
    }


def summary(plan: Plan) -> dict[str, float]:
    """The figures of `WHAT_IF`."""
    return {
        "ps": plan.ps,
        "rows": sum(section["rows"].value for section in plan.tables.values()),
        "ps_memory_request_bytes": plan.server["memory_request_bytes"].value,
        "ps_bytes_per_step": plan.network["ps_bytes"].value,
        "checkpoint_bytes": plan.checkpoint["bytes"].value,
        "step_seconds": plan.time["step_seconds"].value,
    }


def _section(section: Mapping[str, Figure]) -> dict[str, Any]:
    return {name: to_json(one) for name, one in section.items()}
