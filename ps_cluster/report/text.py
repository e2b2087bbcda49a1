"""Numbers as a person reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def count(number: float) -> str:
    """`1,234,567`"""
    return f"{number:,.0f}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 worker`, `2 workers`, `0 PS`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def may_match(pruned: Mapping[str, int]) -> str:
    """`1 of 8 stripes, 3 of 56 row groups, 300 of 5,600 rows may match`, from a `pruning.Pruned` as a dict."""
    nouns = {"stripes": "stripe", "row_groups": "row group", "rows": "row"}
    parts = [f"{count(pruned[f'{name}_left'])} of {counted(pruned[name], noun)}" for name, noun in nouns.items()]
    return f"{', '.join(parts)} may match"


def size(size_bytes: float) -> str:
    """`512 B`, `1.2 kB`, `25.6 GB`: powers of 1000, as disks and object stores count."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size_bytes < 999.5 or unit == "TB":
            break
        size_bytes /= 1000
    return f"{size_bytes:.0f} {unit}" if unit == "B" or size_bytes >= 99.95 else f"{size_bytes:.1f} {unit}"


def duration(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`"""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def age(seconds: float) -> str:
    """`0:07 ago`, `2 days ago`; `0:07 ahead` of a clock that is behind."""
    if abs(seconds) >= 2 * 86_400:
        return f"{abs(seconds) / 86_400:.0f} days {'ago' if seconds > 0 else 'ahead'}"
    return f"{duration(abs(seconds))} {'ago' if seconds >= 0 else 'ahead'}"


def share(value: float) -> str:
    """`12 %`, `0.031 %`: two digits that say something."""
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def of_step(event: Mapping[str, Any]) -> list[str]:
    """What a step event tells beyond its figures: `MFU 12 %`, `experts 48 %, penalty 2.1e-03`, `newest event 0:07
    ago`."""
    told = []
    if event.get("mfu") is not None:
        told.append(f"MFU {share(float(event['mfu']))}")
    if experts := event.get("experts"):
        told.append(f"experts {share(experts['active'])}, penalty {experts['penalty']:.1e}")
    if event.get("newest_event_time") is not None:
        told.append(f"newest event {age(event['time'] - float(event['newest_event_time']))}")
    return told


def figure(value: float | str | None, digits: int = 4) -> str:
    """`0.8123`, `nan`, `inf`; `-` for none; also the strings that stand for such floats in an event."""
    return "-" if value is None else f"{float(value):.{digits}f}"
