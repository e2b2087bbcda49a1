"""Quantities as Kubernetes writes them."""

from __future__ import annotations

_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def memory(size_bytes: int) -> str:
    """`4Gi` for 4 * 2**30; in the largest unit that says it exactly, else in bytes."""
    for unit, size in _UNITS:
        if size_bytes % size == 0:
            return f"{size_bytes // size}{unit}"
    return str(size_bytes)


def cores(count: float) -> str:
    """`2` for 2, `500m` for half a core; rounded up to a thousandth."""
    thousandths = -int(-count * 1000 // 1)
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def seconds_of(minutes: float) -> int:
    """Whole seconds, at least one."""
    return max(1, round(60 * minutes))
