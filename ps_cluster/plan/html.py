"""A plan as one web page that needs nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ps_cluster.plan.document import summary
from ps_cluster.plan.figure import Figure
from ps_cluster.plan.plan import Plan
from ps_cluster.plan.text import _input, shown
from ps_cluster.plan.types import Facts
from ps_cluster.plan.what_if import Variant

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1.5rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8884; padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.n { text-align: right; white-space: nowrap; } code { font-size: .8rem; overflow-wrap: anywhere; }
.soft { opacity: .7; font-size: .85rem; } .wide { overflow-x: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; } svg polyline { fill: none; stroke-width: 2; }
"""
_COLOURS = ("#2f6fb0", "#b3541e", "#3c8d53", "#8a4fb0", "#b09a2f", "#50808a")
_WIDTH, _HEIGHT, _EDGE = 900, 220, 60


def html(facts: Facts, plan: Plan, changed: Sequence[Variant]) -> str:
    """The page, in UTF-8."""
    parts = [
        f"<h1>Plan of job {escape(facts.job)}</h1>",
        f"<p>{facts.horizon.rows:,.0f} rows of samples ({escape(facts.horizon.source)}). "
        f"<span class='soft'>Constants: {escape(facts.constants_source)}</span></p>",
        "<ul>" + "".join(f"<li>{escape(verdict)}</li>" for verdict in plan.verdicts) + "</ul>",
        _days(plan),
        _what_if(plan, changed),
    ]
    for name, section in plan.tables.items():
        parts.append(_section(f"Table {name}", section))
    for title, section in (
        ("A PS", plan.server), ("A worker", plan.worker), ("Network, a step", plan.network),
        ("A checkpoint", plan.checkpoint), ("Time", plan.time), ("Cost", plan.cost),
    ):  # fmt: skip
        if section:
            parts.append(_section(title, section))
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        f"content='width=device-width'><title>Plan of {escape(facts.job)}</title><style>{_STYLE}</style></head><body>"
        + "".join(parts)
        + "</body></html>\n"
    )


def _section(title: str, section: Mapping[str, Figure]) -> str:
    rows = []
    for name, one in section.items():
        inputs = ", ".join(f"{key} {_input(value)}" for key, value in one.inputs.items())
        rows.append(
            f"<tr><td>{escape(name)}</td><td class='n'>{escape(shown(one.value, one.unit))}</td>"
            f"<td><code>{escape(one.formula)}</code><br><span class='soft'>{escape(inputs)}"
            f"{'<br>' + escape(one.source) if one.source else ''}</span></td></tr>"
        )
    return f"<h2>{escape(title)}</h2><div class='wide'><table>{''.join(rows)}</table></div>"


def _what_if(plan: Plan, changed: Sequence[Variant]) -> str:
    head = "".join(
        f"<th>{name}</th>" for name in ("", "PS", "rows", "PS memory request", "PS bytes/step", "checkpoint", "step")
    )
    rows = []
    for words, one in [("as it is", plan), *((variant.change, variant.plan) for variant in changed)]:
        found = summary(one)
        cells = [
            f"{one.ps}", f"{found['rows']:,.0f}", shown(found["ps_memory_request_bytes"], "B"),
            shown(found["ps_bytes_per_step"], "B"), shown(found["checkpoint_bytes"], "B"),
            shown(found["step_seconds"], "s"),
        ]  # fmt: skip
        rows.append(f"<tr><td>{escape(words)}</td>" + "".join(f"<td class='n'>{cell}</td>" for cell in cells) + "</tr>")
    return f"<h2>What if</h2><div class='wide'><table><tr>{head}</tr>{''.join(rows)}</table></div>"


def _days(plan: Plan) -> str:
    if len(plan.by_day) < 2:
        return ""
    last = plan.by_day[-1][0]
    most = max(one.value for _, rows in plan.by_day for one in rows.values()) or 1.0
    lines = []
    for number, name in enumerate(plan.tables):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(
            f"{_EDGE + day / last * (_WIDTH - 2 * _EDGE):.1f},"
            f"{_HEIGHT - 30 - rows[name].value / most * (_HEIGHT - 50):.1f}"
            for day, rows in plan.by_day
        )
        lines.append(f"<polyline points='{points}' stroke='{colour}'/>")
        lines.append(f"<text x='{_EDGE + 8}' y='{20 + 15 * number}' style='fill:{colour}'>{escape(name)}</text>")
    axis = (
        f"<text x='{_EDGE}' y='{_HEIGHT - 8}'>0</text><text x='{_WIDTH - _EDGE}' y='{_HEIGHT - 8}' "
        f"text-anchor='end'>day {last:g}</text><text x='0' y='20'>{most:,.3g}</text>"
    )
    return f"<h2>Rows by day</h2><svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>{axis}{''.join(lines)}</svg>"
