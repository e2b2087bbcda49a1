"""What tables of several widths save against one width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ps_cluster.report.text import count


def parameters_saved(table: Mapping[str, Any]) -> int:
    """Numbers in embeddings that the table has less than if all rows had its largest width.

    table: of a `tables` event.
    """
    tiers = table.get("tiers") or []
    widest = max((tier["dim"] for tier in tiers), default=0)
    return sum(tier["rows"] * (widest - tier["dim"]) for tier in tiers)


def in_words(table: Mapping[str, Any]) -> str:
    """`9,000 rows of 8, 1,000 of 32: 67.5 % fewer parameters than all of 32`; nothing for a table of one width."""
    tiers = table.get("tiers") or []
    if not tiers:
        return ""
    first, *others = tiers
    parts = [f"{count(first['rows'])} rows of {first['dim']}"]
    parts += [f"{count(tier['rows'])} of {tier['dim']}" for tier in others]
    widest = max(tier["dim"] for tier in tiers)
    whole = widest * sum(tier["rows"] for tier in tiers)
    share = f": {parameters_saved(table) / whole:.1%}".replace("%", " %") if whole else ""
    return ", ".join(parts) + (f"{share} fewer parameters than all of {widest}" if share else "")
