"""A plan for people: what to ask for, and each figure with its formula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ps_cluster.plan.figure import Figure
from ps_cluster.plan.plan import Plan
from ps_cluster.plan.types import Facts
from ps_cluster.plan.what_if import Variant

_LONGEST_LIST = 4


def shown(value: float, unit: str) -> str:
    """`25.6 GB (25,600,000,000 B)`, `1,234 rows`, `3.2 ms`."""
    if unit == "B" or unit == "B/s":
        per = "/s" if unit.endswith("/s") else ""
        for power, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
            if value >= power:
                return f"{value / power:,.4g} {name}{per}"
        return f"{value:,.4g} B{per}"
    if unit in ("s", "CPU-s"):
        if value < 1:
            return f"{value * 1e3:,.4g} {'CPU-' if unit != 's' else ''}ms"
        return f"{value:,.4g} {unit}" if value < 7200 else f"{value / 3600:,.4g} h"
    if unit == "":
        return f"{value:.4g}"
    number = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.4g}"
    return f"{number} {unit}"


def text(facts: Facts, plan: Plan, changed: Sequence[Variant], brief: bool = False) -> str:
    """The plan in lines. brief: without formulas."""
    return "\n".join(_lines(facts, plan, changed, brief))


def _lines(facts: Facts, plan: Plan, changed: Sequence[Variant], brief: bool) -> Iterator[str]:
    yield f"plan of job {facts.job}: {facts.horizon.rows:,.0f} rows of samples ({facts.horizon.source})"
    yield f"constants: {facts.constants_source}"
    for verdict in plan.verdicts:
        yield f"  * {verdict}"
    if plan.by_day:
        yield "\nrows by day"
        names = list(plan.tables)
        yield from _columns(
            [
                ["day", *names],
                *([f"{day:g}", *(f"{rows[name].value:,.0f}" for name in names)] for day, rows in plan.by_day),
            ]
        )
    if brief:
        yield "\ntables"
        yield from _columns([["", "rows", "embeddings", "payload", "memory of a PS"], *_brief(plan)])
    for name, section in plan.tables.items() if not brief else ():
        yield f"\ntable {name} (from {facts.loads[name].source})"
        yield from _figures(section)
    for title, section in (
        ("a PS", plan.server), ("a worker", plan.worker), ("network, a step", plan.network),
        ("a checkpoint", plan.checkpoint), ("time", plan.time), ("cost", plan.cost),
    ):  # fmt: skip
        if section and not brief:
            yield f"\n{title}"
            yield from _figures(section)
    yield "\nwhat if"
    rows: list[list[str]] = [["", "PS", "rows", "PS memory request", "PS bytes/step", "checkpoint", "step"]]
    from ps_cluster.plan.document import summary

    for words, one in [("as it is", plan), *((variant.change, variant.plan) for variant in changed)]:
        found = summary(one)
        rows.append(
            [
                words,
                f"{one.ps}",
                f"{found['rows']:,.0f}",
                shown(found["ps_memory_request_bytes"], "B"),
                shown(found["ps_bytes_per_step"], "B"),
                shown(found["checkpoint_bytes"], "B"),
                shown(found["step_seconds"], "s"),
            ]
        )
    yield from _columns(rows)


def _brief(plan: Plan) -> Iterator[list[str]]:
    for name, section in plan.tables.items():
        yield [
            name,
            f"{section['rows'].value:,.0f}",
            *(shown(section[key].value, "B") for key in ("embedding_bytes", "payload_bytes", "peak_bytes_per_ps")),
        ]


def _figures(section: Mapping[str, Figure]) -> Iterator[str]:
    for name, one in section.items():
        yield f"  {name}: {shown(one.value, one.unit)}" + (f"  [{one.source}]" if one.source else "")
        if set(one.inputs) != {one.formula}:
            inputs = ", ".join(f"{key} {_input(value)}" for key, value in one.inputs.items())
            yield f"      = {one.formula}" + (f"   with {inputs}" if inputs else "")


def _input(value: Any) -> str:
    if isinstance(value, tuple):
        head = ", ".join(f"{one:.3g}" for one in value[:_LONGEST_LIST])
        return f"[{head}{', …' if len(value) > _LONGEST_LIST else ''}] ({len(value)})"
    return f"{value:,.0f}" if value == int(value) else f"{value:.5g}"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield (
            "  "
            + "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
        )
