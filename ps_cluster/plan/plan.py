"""The plan of a job: every estimate put together, for one number of PS or the least that holds the horizon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ps_cluster.plan.cost import cost_figures
from ps_cluster.plan.figure import Figure, figure, total
from ps_cluster.plan.network import network_figures
from ps_cluster.plan.servers import MOST_PS, server_figures
from ps_cluster.plan.speed import LAYERS, bottleneck, epoch_figures, step_figures, worker_cpu_figures
from ps_cluster.plan.table_bytes import bytes_figures, checkpoint_figure
from ps_cluster.plan.table_rows import rows_figures
from ps_cluster.plan.types import Facts
from ps_cluster.plan.workers import worker_figures

Section = Mapping[str, Figure]


@dataclass(frozen=True)
class Plan:
    """ps: PS that it is for. tables: by name, rows and bytes at the horizon. verdicts: sentences. by_day: rows of each
    table at the end of some days."""

    ps: int
    tables: Mapping[str, Section]
    server: Section
    worker: Section
    network: Section
    checkpoint: Section
    time: Section
    cost: Section
    by_day: tuple[tuple[float, Mapping[str, Figure]], ...]
    verdicts: tuple[str, ...]


def plan_of(facts: Facts, ps: int | None = None) -> Plan:
    """The plan with `ps` PS. Default: the least number whose memory request is within `ps_memory_bytes`; without that
    wish the job's own number."""
    if ps is None:
        ps = least_ps(facts)
    tables: dict[str, dict[str, Figure]] = {}
    for shape in facts.tables:
        rows = rows_figures(shape, facts.loads[shape.name], facts.horizon.rows, facts.cluster)
        tables[shape.name] = rows | bytes_figures(shape, rows, max(ps, 1))
    network = network_figures(facts, ps)
    checkpoint = _checkpoint(facts, tables, ps)
    cpu = server_figures(facts, tables, network, ps, checkpoint["seconds"], figure("s", "1"))["cpu_seconds_per_step"]
    worker_cpu = worker_cpu_figures(facts, network)
    time = step_figures(facts, network, worker_cpu, cpu, ps)
    server = server_figures(facts, tables, network, ps, checkpoint["seconds"], time["step_seconds"])
    time |= epoch_figures(facts, time["step_seconds"])
    bandwidth = {
        name: figure("B/s", "bytes / step_seconds", bytes=network[of], step_seconds=time["step_seconds"])
        for name, of in (("ps_bytes_per_second", "ps_bytes"), ("worker_bytes_per_second", "worker_bytes"))
    }
    worker = worker_figures(facts, network) | worker_cpu
    cost = cost_figures(facts, ps, server, worker, time["training_seconds"])
    made = Plan(ps, tables, server, worker, network | bandwidth, checkpoint, time, cost, _by_day(facts), ())
    return replace(made, verdicts=tuple(_verdicts(facts, made)))


def least_ps(facts: Facts) -> int:
    """The least number of PS whose memory request is within the limit; the job's own where there is no limit."""
    limit = facts.wishes.ps_memory_bytes
    if limit is None:
        return facts.cluster.ps

    def fits(ps: int) -> bool:
        return plan_of(facts, ps).server["memory_request_bytes"].value <= limit

    most = 1
    while not fits(most):
        most *= 2
        if most > MOST_PS:
            return MOST_PS
    least = most // 2 + 1
    while least < most:
        middle = (least + most) // 2
        if fits(middle):
            most = middle
        else:
            least = middle + 1
    return most


def _checkpoint(facts: Facts, tables: Mapping[str, Section], ps: int) -> dict[str, Figure]:
    parts = {f"table_{shape.name}": checkpoint_figure(shape, tables[shape.name]) for shape in facts.tables}
    found: dict[str, Figure] = dict(parts)
    found["dense_bytes"] = figure("B", "4 * parameters * (1 + slots)", "weights and slots of the dense optimiser",
                                  parameters=facts.dense.parameters, slots=facts.dense.slots)  # fmt: skip
    found["bytes"] = total("B", {**parts, "dense_bytes": found["dense_bytes"]}, "a full checkpoint")
    found["seconds"] = figure(
        "s", "table_bytes / ps / bytes_per_second", "each PS writes its part beside training",
        table_bytes=sum(one.value for one in parts.values()), ps=max(ps, 1),
        bytes_per_second=facts.constants["checkpoint_bytes_per_second"],
    )  # fmt: skip
    return found


def _by_day(facts: Facts) -> tuple[tuple[float, Mapping[str, Figure]], ...]:
    horizon = facts.horizon
    if not horizon.rows_per_day or not horizon.days:
        return ()
    days = sorted({min(float(day), horizon.days) for day in _some_days(horizon.days)})
    return tuple(
        (
            day,
            {
                shape.name: rows_figures(shape, facts.loads[shape.name], horizon.rows_per_day * day, facts.cluster)[
                    "rows"
                ]
                for shape in facts.tables
            },
        )
        for day in days
    )


def _some_days(days: float) -> list[int]:
    whole = math.ceil(days)
    return list(range(1, whole + 1)) if whole <= 14 else [1, 2, 3, *range(7, whole, max(7, whole // 10)), whole]


def _verdicts(facts: Facts, plan: Plan) -> list[str]:
    found = []
    wishes, cluster = facts.wishes, facts.cluster
    request = plan.server["memory_request_bytes"].value
    if wishes.ps_memory_bytes is not None:
        if request <= wishes.ps_memory_bytes:
            found.append(
                f"{plan.ps} PS of {_gib(wishes.ps_memory_bytes)} hold the horizon with a margin of {wishes.margin:g}"
            )
        else:
            found.append(
                f"even {plan.ps} PS of {_gib(wishes.ps_memory_bytes)} do not hold the horizon with a margin of "
                f"{wishes.margin:g}: each needs {_gib(request)}"
            )
    else:
        found.append(f"{plan.ps} PS, each with a memory request of {_gib(request)} (margin {wishes.margin:g})")
    if wishes.machine_memory_bytes is not None:
        together = plan_of_one(facts)
        fits = together <= wishes.machine_memory_bytes
        found.append(
            f"one machine is {'enough' if fits else 'not enough'}: one PS and {cluster.workers} "
            f"worker{'s' if cluster.workers > 1 else ''} ask for {_gib(together)} of its "
            f"{_gib(wishes.machine_memory_bytes)}"
        )
    slowest = bottleneck(plan.time)
    found.append(
        f"{LAYERS[slowest]} will be the bottleneck: {plan.time[slowest].value * 1e3:,.3g} of "
        f"{plan.time['step_seconds'].value * 1e3:,.3g} ms a step"
    )
    rate = plan.network["ps_bytes_per_second"].value
    if plan.ps and rate > 0.7 * wishes.bandwidth:
        found.append(f"a PS needs {rate / wishes.bandwidth:.0%} of the bandwidth given: more PS would share it")
    return found


def plan_of_one(facts: Facts) -> float:
    """Bytes that one PS and all workers ask for together."""
    network = network_figures(facts, 1)
    tables: dict[str, dict[str, Figure]] = {}
    for shape in facts.tables:
        rows = rows_figures(shape, facts.loads[shape.name], facts.horizon.rows, facts.cluster)
        tables[shape.name] = rows | bytes_figures(shape, rows, 1)
    nothing = figure("s", "1")
    server = server_figures(facts, tables, network, 1, nothing, nothing)
    worker = worker_figures(facts, network)
    return server["memory_request_bytes"].value + facts.cluster.workers * worker["memory_request_bytes"].value


def _gib(count: float) -> str:
    return f"{count / 2**30:,.3g} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"
