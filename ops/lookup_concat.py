"""Look-ups in frozen tables as typed Python functions; nothing here has a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ops.library import load_rankmixer


class FrozenTable(NamedTuple):
    """A trained table, as tensors or as variables, which are read where they lie.

    keys: int64 `[n]`, in `hash_order`. starts: int32 or int64 `[2^k + 1]`. rows: float32, float16 or int8
    `[n + 1, dim]`, each key's embedding and, last, that of every other id; all tables of a look-up are of one type.
    scales: float32 `[n + 1]`, what each row of int8 is multiplied by; None for other types.
    """

    keys: tf.Tensor
    starts: tf.Tensor
    rows: tf.Tensor
    scales: tf.Tensor | None = None


@dataclass(frozen=True)
class IdInput:
    """A feature whose ids are looked up.

    table: number of its table. pooling: `id` for one id a row; of lists `sum`, `mean` or `sqrtn` (sum over the root of
    the length). max_length: how many ids of a list count, the last ones; 0: all.
    """

    name: str
    table: int
    pooling: str = "id"
    max_length: int = 0


@dataclass(frozen=True)
class GivenInput:
    """Values that stand in the matrix as they are, or as sign(x) · log(1 + |x|)."""

    name: str
    signed_log: bool = False


class Segment(NamedTuple):
    """`width` values of an input's vector, from `start` on, stand in a part of the matrix from `column` on.

    input: its number, id inputs first, then given ones.
    """

    input: int
    start: int
    width: int
    part: int
    column: int


@dataclass(frozen=True)
class Arrangement:
    """What the matrix `[parts, batch, width]` is made of; zeros where no segment stands."""

    ids: tuple[IdInput, ...]
    given: tuple[GivenInput, ...]
    segments: tuple[Segment, ...]
    parts: int
    width: int


def hash_order(keys: np.ndarray, index: type = np.int32) -> tuple[np.ndarray, np.ndarray]:
    """How a table's keys must lie: `keys[order]`, and `starts`, which finds them.

    keys: int64 `[n]`, each once. index: type of `starts`, the same for all tables of a look-up; int32 or, from 2^31
    keys on, int64. Returns order, int64 `[n]`, and starts `[2^k + 1]` with one to two keys between two of them.
    """
    hashes = mix(keys)
    order = np.argsort(hashes, kind="stable")
    counts = HashCounts(len(keys))
    counts.add(hashes)
    return order, counts.starts(index)


class HashCounts:
    """Counts hashes of a table's keys, block by block, for `starts` of `hash_order`."""

    def __init__(self, num_keys: int) -> None:
        self._bits = max(num_keys - 1, 0).bit_length() - 1 if num_keys > 1 else 0
        self._counts = np.zeros((1 << self._bits) + 1, np.int32)  # the first one stays 0

    def add(self, hashes: np.ndarray) -> None:
        """Hashes uint64 `[n]` of `mix`, which lie in one part of the whole where they are sorted."""
        buckets = ((hashes >> np.uint64(1)) >> np.uint64(63 - self._bits)).view(np.int64)
        if len(buckets):
            first = buckets.min()
            counts = np.bincount(buckets - first)
            self._counts[1 + first : 1 + first + len(counts)] += counts.astype(np.int32)

    def starts(self, index: type = np.int32) -> np.ndarray:
        """`[2^k + 1]`; call it once, after the last block."""
        if index is np.int32:
            return np.cumsum(self._counts, out=self._counts)
        starts: np.ndarray = np.cumsum(self._counts, dtype=index)
        return starts


def lookup_concat(
    arrangement: Arrangement,
    ids: Sequence[tf.Tensor],
    lengths: Sequence[tf.Tensor],
    given: Sequence[tf.Tensor],
    tables: Sequence[FrozenTable],
) -> tf.Tensor:
    """All inputs side by side: float32 `[parts, batch, width]`.

    Args:
        ids: Of each id input int64 `[batch]`, of a list `[batch, length]`, padded with anything.
        lengths: Of each list, int64 `[batch]`.
        given: float32 `[batch]` or `[batch, width]`.

    Raises:
        LibraryError: the op library is not there, or does not load.
        tf.errors.InvalidArgumentError: shapes that do not fit; names the input, what was expected and found.
    """
    inputs = arrangement.ids
    return load_rankmixer().ps_cluster_lookup_concat(
        ids=list(ids),
        lengths=list(lengths),
        given=list(given),
        keys=[table.keys for table in tables],
        starts=[table.starts for table in tables],
        rows=[table.rows for table in tables],
        scales=[table.scales for table in tables if table.scales is not None],
        tables=[one.table for one in inputs],
        poolings=[one.pooling for one in inputs],
        max_lengths=[one.max_length for one in inputs],
        signed_log=[one.signed_log for one in arrangement.given],
        segments=[number for segment in arrangement.segments for number in segment],
        parts=arrangement.parts,
        width=arrangement.width,
        names=[one.name for one in inputs] + [one.name for one in arrangement.given],
    )


def lookup_sequence(
    name: str, ids: tf.Tensor, lengths: tf.Tensor, table: FrozenTable, max_length: int = 0
) -> tuple[tf.Tensor, tf.Tensor]:
    """Elements float32 `[batch, longest, dim]`, zeros behind a list's end, and mask bool `[batch, longest]`.

    ids: int64 `[batch, length]`, padded with anything; lengths: int64 `[batch]`; of a list's ids the last `max_length`
    count (0: all).
    """
    scales = [] if table.scales is None else [table.scales]
    found = load_rankmixer().ps_cluster_lookup_sequence(
        ids, lengths, table.keys, table.starts, table.rows, scales, max_length=max_length, name_of_list=name
    )
    return found.elements, found.mask


def unmix(hashes: np.ndarray) -> np.ndarray:
    """The keys, int64 `[n]`, of hashes uint64 `[n]` of `mix`."""
    keys = hashes ^ (hashes >> np.uint64(33))
    keys *= np.uint64(0x9CB4B2F8129337DB)  # the inverses of the factors below
    keys ^= keys >> np.uint64(33)
    keys *= np.uint64(0x4F74430C22A54005)
    keys ^= keys >> np.uint64(33)
    return keys.view(np.int64)


def mix(keys: np.ndarray) -> np.ndarray:
    """`HashOfId` of `ops/rankmixer/lookup/frozen_table.h`: int64 `[n]` to uint64 `[n]`."""
    hashes = keys.astype(np.int64, copy=False).view(np.uint64)
    hashes = hashes ^ (hashes >> np.uint64(33))
    hashes *= np.uint64(0xFF51AFD7ED558CCD)
    hashes ^= hashes >> np.uint64(33)
    hashes *= np.uint64(0xC4CEB9FE1A85EC53)
    hashes ^= hashes >> np.uint64(33)
    return hashes
