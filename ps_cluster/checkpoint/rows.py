"""The rows of a table in a checkpoint, read in blocks; those of a chain as the newest delta left them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ops.shards import BlockKind, embeddings_of, read_blocks
from ps_cluster.checkpoint.finding import Checkpoint, Level
from ps_cluster.checkpoint.manifest import Shard, StoredTable

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Rows:
    """Rows of one class: 0 for keys that are only counted (width 0), k for tier k - 1.

    keys: int64 `[n]`. last_steps, last_hours: uint32 `[n]`. frequencies: float64 `[n]`. embeddings: float32
    `[n, dim of the class]`. slots: float32 `[n, slots, dim of the class]`.
    """

    row_class: int
    keys: np.ndarray
    last_steps: np.ndarray
    frequencies: np.ndarray
    last_hours: np.ndarray
    embeddings: np.ndarray
    slots: np.ndarray


def rows_of(checkpoint: Checkpoint, table: str) -> Iterator[Rows]:
    """All rows of a table, each once. In memory: a block, and of a chain the keys of its deltas.

    Raises:
      UserError: the checkpoint has no such table.
      tf.errors.OpError: a file is damaged; names it and the block.
    """
    newer = np.zeros(0, np.int64)  # sorted keys that a later delta has
    for level in reversed(checkpoint.levels(table)):
        here = [newer]
        for shard in level.table.shards:
            for block in read_blocks(level.path(shard)):
                if block.kind == BlockKind.BLOOM:
                    continue
                if level.table.is_delta:
                    here.append(block.keys)
                if block.kind != BlockKind.ROWS:
                    continue
                live = ~_among(block.keys, newer)
                if live.any():
                    yield decoded(level.table, block.row_class, block.keys, block.meta, block.rows, live)
        newer = np.unique(np.concatenate(here))


def row_of(checkpoint: Checkpoint, table: str, key: int) -> Rows | None:
    """The row of one key, `n` = 1; None when there is none. Only files of the PS that owned the key are read."""
    for level in reversed(checkpoint.levels(table)):
        removed = False
        for shard in level.table.shards:
            if not _owns(shard, level, key):
                continue
            for block in read_blocks(level.path(shard)):
                if block.kind == BlockKind.BLOOM:
                    continue
                live = block.keys == key
                if not live.any():
                    continue
                if block.kind == BlockKind.ROWS:
                    return decoded(level.table, block.row_class, block.keys, block.meta, block.rows, live)
                removed = True
        if removed:
            return None
    return None


def decoded(
    table: StoredTable, row_class: int, keys: np.ndarray, meta: np.ndarray, rows: np.ndarray, live: np.ndarray
) -> Rows:
    """The rows of a block that are asked for, bool `[n]` of `live`; the others as of `ops.shards.Block`."""
    keys, meta, rows = keys[live], meta[live], rows[live]
    dim = table.dims[row_class - 1] if row_class else 0
    frequencies = np.ascontiguousarray(meta[:, 1])
    slots = np.ascontiguousarray(rows[:, rows.shape[1] - 4 * dim * table.slots :])
    return Rows(
        row_class=row_class,
        keys=keys,
        last_steps=meta[:, 0],
        frequencies=(frequencies.view("<f4") if table.decayed_frequencies else frequencies).astype(np.float64),
        last_hours=meta[:, 2],
        embeddings=embeddings_of(rows, dim, table.value_type),
        slots=slots.view("<f4").reshape(len(keys), table.slots if dim else 0, dim),
    )


def _among(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of `keys` are among `others`, which are sorted."""
    if not len(others):
        return np.zeros(len(keys), bool)
    return others[np.minimum(np.searchsorted(others, keys), len(others) - 1)] == keys


def _owns(shard: Shard, level: Level, key: int) -> bool:
    """Whether a file is of the PS that owned a key: `OwnerOf` and `HashKey` of `ops/cc/table/hashing.h`."""
    hashed = _mix64((key + _mix64(level.table.salt & _MASK)) & _MASK)
    return (hashed >> 32) * shard.num_ps >> 32 == shard.ps


def _mix64(x: int) -> int:
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & _MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & _MASK
    return x ^ x >> 33
