"""A table's rows in the order of the hashes of their keys, a chunk at a time.

Everything of an export goes by this order: tables are written in it, sharded and compared in it, and a delta is merged
into it. It comes from files on the disk: rows are dealt out to a file for each range of hashes, and each of these is
sorted by itself, so that no more than one of them is in memory, however large the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np

from ops.lookup_concat import mix
from ps_cluster.checkpoint.finding import Checkpoint
from ps_cluster.checkpoint.rows import rows_of
from ps_cluster.export.row_types import RowType, row_bytes, stored

Blocks = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]

CHUNK_BYTES = 8 << 20
_MOST_FILES = 256
_DEALT_ROWS = 131_072


@dataclass(frozen=True)
class StoredRows:
    """A table's rows as a checkpoint holds them, and what becomes of them.

    Attributes:
        blocks: gives rows in blocks: keys, int64 `[n]`, each once in all; embeddings, float32 `[n, dim or less]`, where
            those that are left out are zeros.
        dim: width of the widest.
        unknown: every value of the vector of an unknown id.
        projection: float32 `[dim, width]`: rows and unknown are multiplied by it. None: they stay as they are.
        expected: about how many rows there are.
    """

    blocks: Blocks
    dim: int
    unknown: float = 0.0
    projection: np.ndarray | None = None
    expected: int = 0

    @property
    def width(self) -> int:
        """Of the vectors that a look-up gives."""
        return self.dim if self.projection is None else self.projection.shape[1]

    def unknown_row(self) -> np.ndarray:
        """Float32 `[1, width]`."""
        return self.projected(np.full([1, self.dim], self.unknown, np.float32))

    def projected(self, vectors: np.ndarray) -> np.ndarray:
        """Float32 `[n, dim or less]` to `[n, width]`."""
        if self.projection is None:
            return np.pad(vectors, [(0, 0), (0, self.dim - vectors.shape[1])])
        kernel = self.projection[: vectors.shape[1]]
        return (vectors.astype(np.float64) @ kernel.astype(np.float64)).astype(np.float32)


def stored_blocks(checkpoint: Checkpoint, table: str) -> Blocks:
    """The embeddings of a table in a checkpoint; a block of its files at a time."""

    def blocks() -> Iterable[tuple[np.ndarray, np.ndarray]]:
        return ((rows.keys, rows.embeddings) for rows in rows_of(checkpoint, table) if rows.row_class > 0)

    return blocks


@dataclass(frozen=True)
class Chunk:
    """Rows whose hashes lie next to each other.

    hashes: uint64 `[n]`, ascending, `ops.lookup_concat.mix` of keys, int64 `[n]`. values: `[n, width]` as stored.
    scales: float32 `[n]` of int8, else None.
    """

    keys: np.ndarray
    hashes: np.ndarray
    values: np.ndarray
    scales: np.ndarray | None

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, where: slice | np.ndarray) -> Chunk:
        """The rows at some places."""
        scales = None if self.scales is None else self.scales[where]
        return Chunk(self.keys[where], self.hashes[where], self.values[where], scales)


class OrderedRows(Protocol):
    """A table in the order of hashes. `chunks` may be asked for several times.

    unknown: the row of every other id, a chunk of one whose key means nothing.
    """

    @property
    def num_rows(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def row_type(self) -> RowType: ...
    @property
    def unknown(self) -> Chunk: ...
    def chunks(self) -> Iterator[Chunk]: ...


def chunk_of(keys: np.ndarray, values: np.ndarray, scales: np.ndarray | None) -> Chunk:
    """Rows in any order as a chunk."""
    hashes = mix(keys)
    order = np.argsort(hashes, kind="stable")
    return Chunk(keys[order], hashes[order], values[order], None if scales is None else scales[order])


def joined(chunks: list[Chunk]) -> Chunk:
    """Chunks one after the other, at least one."""
    if len(chunks) == 1:
        return chunks[0]
    scales = None if chunks[0].scales is None else np.concatenate([one.scales for one in chunks])
    return Chunk(
        np.concatenate([one.keys for one in chunks]),
        np.concatenate([one.hashes for one in chunks]),
        np.concatenate([one.values for one in chunks]),
        scales,
    )


def unknown_chunk(rows: StoredRows, row_type: RowType, what: str) -> Chunk:
    """The row of every other id."""
    values, scales = stored(rows.unknown_row(), row_type, what)
    return Chunk(np.zeros(1, np.int64), np.zeros(1, np.uint64), values, scales)


def shard_of(hashes: np.ndarray, shards: int) -> np.ndarray:
    """Which of `shards` servers has a key, int64 `[n]`: by the lower half of its hash, as the order goes by the upper
    one."""
    return ((hashes & np.uint64(0xFFFFFFFF)) * np.uint64(shards) >> np.uint64(32)).astype(np.int64)


@dataclass(frozen=True)
class _InMemory:
    all_rows: Chunk
    unknown: Chunk
    row_type: RowType

    @property
    def num_rows(self) -> int:
        return len(self.all_rows)

    @property
    def width(self) -> int:
        return self.unknown.values.shape[1]

    def chunks(self) -> Iterator[Chunk]:
        if len(self.all_rows):
            yield self.all_rows


@dataclass(frozen=True)
class _OnDisk:
    """paths: a file for each range of hashes, in their order, of records `dtype`."""

    paths: list[str]
    dtype: np.dtype
    num_rows: int
    unknown: Chunk
    row_type: RowType

    @property
    def width(self) -> int:
        return self.unknown.values.shape[1]

    def chunks(self) -> Iterator[Chunk]:
        for path in self.paths:
            records = np.fromfile(path, self.dtype)
            if len(records):
                scales = records["scale"] if self.row_type == "int8" else None
                yield chunk_of(records["key"], records["row"], scales)


def ordered(rows: StoredRows, row_type: RowType, folder: str, what: str, shards: int = 1) -> list[OrderedRows]:
    """A table in the order of hashes, cut into shards (`shard_of`).

    rows.blocks is gone through once. folder: takes the files of a table that is larger than a chunk; it is made when
    it is needed, and may be removed when the rows are not needed any more. what: names the table in errors.
    """
    unknown = unknown_chunk(rows, row_type, what)
    size = 8 + row_bytes(rows.width, row_type)
    wanted = -(-rows.expected * size // (shards * CHUNK_BYTES))
    bits = min(max(wanted - 1, 0).bit_length(), (max(_MOST_FILES // shards, 1)).bit_length() - 1)
    if rows.expected * size <= CHUNK_BYTES:
        found = [(keys, *stored(rows.projected(vectors), row_type, what)) for keys, vectors in rows.blocks()]
        whole = joined([unknown.at(slice(0)), *(chunk_of(*one) for one in found)])
        whole = chunk_of(whole.keys, whole.values, whole.scales)
        if shards == 1:
            return [_InMemory(whole, unknown, row_type)]
        owners = shard_of(whole.hashes, shards)
        return [_InMemory(whole.at(owners == shard), unknown, row_type) for shard in range(shards)]
    fields = [("key", "<i8"), ("row", np.dtype(row_type), (rows.width,))]
    dtype = np.dtype([*fields, ("scale", "<f4")] if row_type == "int8" else fields)
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"{part:05d}.rows") for part in range(shards << bits)]
    counts = _deal(rows, row_type, what, dtype, bits, shards, paths)
    of_shard = [paths[shard << bits : (shard + 1) << bits] for shard in range(shards)]
    return [_OnDisk(of_shard[shard], dtype, int(counts[shard]), unknown, row_type) for shard in range(shards)]


def _deal(
    rows: StoredRows, row_type: RowType, what: str, dtype: np.dtype, bits: int, shards: int, paths: list[str]
) -> np.ndarray:
    """Writes all rows to the files of their ranges; how many each shard has."""
    counts = np.zeros(len(paths), np.int64)
    files: list[BinaryIO] = []
    try:
        files.extend(open(path, "wb") for path in paths)  # noqa: SIM115 - closed below
        for keys, vectors in _gathered(rows):
            values, scales = stored(vectors, row_type, what)
            hashes = mix(keys)
            parts = shard_of(hashes, shards) << bits
            if bits:
                parts += (hashes >> np.uint64(64 - bits)).astype(np.int64)
            order = np.argsort(parts, kind="stable")
            records = np.empty(len(keys), dtype)
            records["key"], records["row"] = keys[order], values[order]
            if scales is not None:
                records["scale"] = scales[order]
            here = np.bincount(parts, minlength=len(paths))
            counts += here
            for file, end, count in zip(files, np.cumsum(here), here):
                if count:
                    file.write(records[end - count : end].tobytes())
    finally:
        for file in files:
            file.close()
    return counts.reshape(shards, -1).sum(axis=1)


def _gathered(rows: StoredRows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of some size, projected: small ones cost more than their rows."""
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    count = 0
    for keys, vectors in rows.blocks():
        waiting.append((keys, rows.projected(vectors)))
        count += len(keys)
        if count >= _DEALT_ROWS:
            yield np.concatenate([one[0] for one in waiting]), np.concatenate([one[1] for one in waiting])
            waiting, count = [], 0
    if waiting:
        yield np.concatenate([one[0] for one in waiting]), np.concatenate([one[1] for one in waiting])
