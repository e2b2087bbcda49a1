"""A table that is larger than a chunk, without a training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ps_cluster.export.ordered_rows import StoredRows

ROWS, WIDTH = 300_000, 32
UNKNOWN = 0.25


def keys_of(rows: int = ROWS) -> np.ndarray:
    """Ids that differ, some below 0."""
    return np.random.default_rng(1).permutation(np.arange(rows) * 7919 - 10**6)


def rows_for(keys: np.ndarray) -> np.ndarray:
    """The row of each key, float32 `[n, WIDTH]`."""
    return ((keys[:, np.newaxis] * 31 + np.arange(WIDTH)) % 1009 / 1009 - 0.5).astype(np.float32)


def large_table(rows: int = ROWS) -> StoredRows:
    keys = keys_of(rows)

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, rows, 40_000):
            some = keys[start : start + 40_000]
            yield some, rows_for(some)

    return StoredRows(blocks, WIDTH, UNKNOWN, expected=rows)
