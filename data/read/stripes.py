"""Runs of rows of stripes, and how shards divide them. Pure: nothing here opens a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stripe:
    """A stripe of an ORC file: the smallest piece that is decoded at once."""

    path: str
    index: int
    """Number of the stripe in its file, from 0."""
    first_row: int
    """Row number in the file of the stripe's first row, from 0."""
    rows: int


@dataclass(frozen=True)
class Part:
    """Rows `[start, start + rows)` of a stripe."""

    stripe: Stripe
    start: int
    rows: int


def whole(stripes: Sequence[Stripe]) -> list[Part]:
    """All rows of each stripe that has any."""
    return [Part(stripe, 0, stripe.rows) for stripe in stripes if stripe.rows]


def hulls(parts: Sequence[Part]) -> list[Part]:
    """One part for each stripe, from the first to the last row of its parts; `parts` are in the order of the file."""
    joined: list[Part] = []
    for part in parts:
        if joined and joined[-1].stripe == part.stripe:
            first = joined.pop()
            part = Part(part.stripe, first.start, part.start + part.rows - first.start)
        joined.append(part)
    return joined


def shard_parts(parts: Sequence[Part], shard: int, num_shards: int) -> tuple[Part, ...]:
    """The parts of shard number `shard`, in the order of `parts`, which may be cut.

    All shards together hold every row once. Their row counts differ by at most one, because workers that
    train in step wait for the one with the most rows. Parts are dealt in order to the shard that still
    lacks most, so that shards move through (time-ordered) files side by side; a part is cut only where a
    shard is full, which costs at most `num_shards - 1` stripes being decoded a second time.
    """
    total = sum(part.rows for part in parts)
    lacking = [total * (i + 1) // num_shards - total * i // num_shards for i in range(num_shards)]
    dealt = []
    for part in parts:
        taken = 0
        while taken < part.rows:
            receiver = max(range(num_shards), key=lacking.__getitem__)
            rows = min(part.rows - taken, lacking[receiver])
            if receiver == shard:
                dealt.append(Part(part.stripe, part.start + taken, rows))
            lacking[receiver] -= rows
            taken += rows
    return tuple(dealt)
