"""Runs of rows of stripes, and how shards divide them. Pure: nothing here opens a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
    """Rows `start`, `start + step`, … of a stripe, `rows` of them."""

    stripe: Stripe
    start: int
    rows: int
    step: int = 1

    @property
    def span(self) -> int:
        """Rows of the stripe from the part's first to its last."""
        return (self.rows - 1) * self.step + 1

    def row_numbers(self, positions: np.ndarray | None = None) -> np.ndarray:
        """Row numbers in the file of the part's rows at `positions` (all of them by default), int64."""
        places = np.arange(self.rows) if positions is None else positions
        return self.stripe.first_row + self.start + places * self.step


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


def slices(parts: Sequence[Part], count: int) -> tuple[Part, ...]:
    """Each part dealt out, row by row in turns, to `count` parts (fewer where it has fewer rows)."""
    return tuple(
        Part(part.stripe, part.start + first, -(-(part.rows - first) // count), count)
        for part in parts
        for first in range(min(count, part.rows))
    )


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
