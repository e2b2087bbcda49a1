"""The ops between tables and the files of a checkpoint, as typed Python functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import tensorflow as tf

from ops.library import load


class BlockKind(IntEnum):
    """What a block of a shard's file holds."""

    ROWS = 1
    REMOVED = 2
    BLOOM = 3
    END = 4


@dataclass(frozen=True)
class Block:
    """A block of a shard's file.

    row_class: 0 for keys that are only counted, k for tier k - 1. keys: int64 `[n]`; of a Bloom filter the numbers of
    its segments. meta: uint32 `[n, 3]`: last step, frequency, last hour. rows: uint8 `[n, bytes of a row]`: embedding
    in its own type, padded to 4 bytes, then float32 slots. The last two are empty unless these are rows.
    """

    kind: BlockKind
    row_class: int
    keys: np.ndarray
    meta: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class StoredRows:
    """How a shard's file holds rows: `dims` by tier, the type of embeddings, float32 slots behind each, and whether
    frequencies are the bits of a float32."""

    dims: tuple[int, ...]
    value_type: str
    slots: int
    decayed_frequencies: bool


def begin_save(table: tf.Tensor, delta: bool) -> tf.Tensor:
    """Fixes what `write_table` will write; returns at once whether that is a delta (bool)."""
    return load().ps_cluster_begin_save(table=table, delta=delta)


def write_table(table: tf.Tensor, path: tf.Tensor, header: tf.Tensor) -> tf.Tensor:
    """Writes what `begin_save` fixed, where the table lies.

    Returns:
      int64 `[6]`: rows, counted keys, removed keys, segments of the Bloom filter, bytes of the file, digest.
    """
    return load().ps_cluster_write_table(table=table, path=path, header=header)


def pack_table(
    keys_file: tf.Tensor, rows_file: tf.Tensor, path: tf.Tensor, header: tf.Tensor, dim: int, slots: int
) -> tf.Tensor:
    """Turns the two files of a TFRA table into a shard's file and deletes them; returns what `write_table` does."""
    return load().ps_cluster_pack_table(
        keys_file=keys_file, rows_file=rows_file, path=path, header=header, dim=dim, slots=slots
    )


def restore_table(
    table: tf.Tensor,
    path: tf.Tensor,
    stored: StoredRows,
    salt: int,
    ps_index: int,
    num_ps: int,
    mode: str,
    packed_dim: int = 0,
    packed_slot_values: Sequence[float] = (),
) -> tf.Tensor:
    """Puts what a file has for PS `ps_index` of `num_ps` into a table; returns the number of rows (int64).

    Args:
      mode: `state`: all as it was; `warm`: the same for a training whose steps start anew; `embeddings`: like `warm`,
        but rows of other widths, types and slots are taken too, with new slots and without counts of the admission.
      packed_dim: width of an embedding where the table is TFRA's.
      packed_slot_values: what new slots start from there; those that are not named, from 0.
    """
    return load().ps_cluster_restore_table(
        table=table,
        path=path,
        salt=salt,
        ps_index=ps_index,
        num_ps=num_ps,
        dims=list(stored.dims),
        value_type=stored.value_type,
        slots=stored.slots,
        decayed_frequencies=stored.decayed_frequencies,
        mode=mode,
        packed_dim=packed_dim,
        packed_slot_values=list(packed_slot_values),
    )


def check_shard(path: tf.Tensor) -> tf.Tensor:
    """Reads a whole file where the op is placed; returns what `write_table` did.

    Raises:
      tf.errors.DataLossError, tf.errors.NotFoundError: names the file and the block that is damaged or missing.
    """
    return load().ps_cluster_check_shard(path=path)


def read_header(path: str) -> tuple[str, bool]:
    """The text in a file's head, and whether it is a delta."""
    head = load().ps_cluster_shard_header(path=path)
    return head.header.numpy().decode(), bool(head.is_delta)


def read_blocks(path: str) -> Iterator[Block]:
    """The blocks of a file without its end, each checked as it is read; only one is in memory."""
    cursor = load().ps_cluster_shard_header(path=path).next
    while True:
        block = load().ps_cluster_read_shard(path=path, cursor=cursor)
        kind = BlockKind(int(block.kind))
        if kind == BlockKind.END:
            return
        cursor = block.next
        yield Block(kind, int(block.row_class), block.keys.numpy(), block.meta.numpy(), block.rows.numpy())


def embeddings_of(rows: np.ndarray, dim: int, value_type: str) -> np.ndarray:
    """The embedding part of rows as they lie in a block: float32 `[n, dim]`."""
    size = 4 if value_type == "float32" else 2
    raw = np.ascontiguousarray(rows[:, : dim * size])
    if value_type == "bfloat16":
        return (raw.view("<u2").astype("<u4") << 16).view("<f4")
    return raw.view("<f4" if value_type == "float32" else "<f2").astype(np.float32)


def owners_overlap(ps: int, num_ps: int, other: int, num_others: int) -> bool:
    """Whether PS `ps` of `num_ps` and PS `other` of `num_others` own a key in common: they own ranges of its hash."""
    return ps * num_others < (other + 1) * num_ps and other * num_ps < (ps + 1) * num_others


def shards_for(ps: int, num_ps: int, shards: Sequence[tuple[int, int]]) -> list[int]:
    """Which of `shards`, as (PS, number of PS) of their time, hold keys of PS `ps` of `num_ps`."""
    return [index for index, (other, of) in enumerate(shards) if owners_overlap(ps, num_ps, other, of)]
