"""The plan of a read: which rows of which stripe, in which order. Pure: nothing here opens a file."""

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
    """Rows `[start, start + rows)` of a stripe."""

    stripe: Stripe
    start: int
    rows: int


def shard_parts(stripes: Sequence[Stripe], shard: int, num_shards: int) -> tuple[Part, ...]:
    """The parts of shard number `shard`, in the order of `stripes`.

    All shards together hold every row once. Their row counts differ by at most one, because workers that
    train in step wait for the one with the most rows. Stripes are dealt in order to the shard that still
    lacks most, so that shards move through (time-ordered) files side by side; a stripe is cut only where a
    shard is full, which costs at most `num_shards - 1` stripes being decoded a second time.
    """
    total = sum(stripe.rows for stripe in stripes)
    lacking = [total * (i + 1) // num_shards - total * i // num_shards for i in range(num_shards)]
    parts = []
    for stripe in stripes:
        start = 0
        while start < stripe.rows:
            receiver = max(range(num_shards), key=lacking.__getitem__)
            rows = min(stripe.rows - start, lacking[receiver])
            if receiver == shard:
                parts.append(Part(stripe, start, rows))
            lacking[receiver] -= rows
            start += rows
    return tuple(parts)


def epoch_order(parts: Sequence[Part], seed: int, epoch: int) -> list[Part]:
    """`parts` in the random order of one epoch; depends on (seed, epoch) and the number of parts only."""
    order = np.random.default_rng([seed, epoch, 0]).permutation(len(parts))
    return [parts[i] for i in order]


def window_order(rows: int, seed: int, epoch: int, window: int) -> np.ndarray:
    """A random order int64 `[rows]` of the rows of shuffle window number `window`.

    Depends on (seed, epoch, window) only, so a reader that starts in the middle need not draw what came
    before.
    """
    return np.random.default_rng([seed, epoch, 1, window]).permutation(rows)


def batches_per_epoch(parts: Sequence[Part], batch_rows: int) -> int:
    """Number of batches one pass over `parts` gives, the last partial one included."""
    return -(-sum(part.rows for part in parts) // batch_rows)
