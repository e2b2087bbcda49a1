"""Two states of a table side by side, a range of hashes at a time: what changed between them, and one made the other.

Both lie in the order of hashes, so a range of one meets the same range of the other, and no more is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ops.lookup_concat import mix
from ps_cluster.export.ordered_rows import CHUNK_BYTES, Chunk, OrderedRows, joined
from ps_cluster.export.row_types import RowType, row_bytes


@dataclass(frozen=True)
class Change:
    """What became of a range of hashes: rows that are new or other than before, and keys that are gone, int64."""

    changed: Chunk
    removed: np.ndarray


def changes(before: OrderedRows, after: OrderedRows) -> Iterator[Change]:
    """What makes `after` of `before`, in the order of hashes. Rows of the same bits have not changed."""
    bits = range_bits(before, after)
    for old, new in zip(by_range(before, bits), by_range(after, bits)):
        places, known = _places(new.hashes, old.hashes)
        same = known & _equal(new, old.at(places)) if len(old) else known
        _, stays = _places(old.hashes, new.hashes)
        yield Change(new.at(~same), old.keys[~stays])


class MergedRows:
    """A table after a change, as `OrderedRows`.

    changed: rows that are new or replace those before. removed: keys that go, int64 `[n]`; those that are not there
    are no mistake, as a key may have come and gone between two states. unknown: the row of every other id.
    """

    def __init__(self, before: OrderedRows, changed: OrderedRows, removed: np.ndarray, unknown: Chunk):
        self.row_type: RowType = before.row_type
        self.width = before.width
        self.unknown = unknown
        self._before = before
        self._changed = changed
        self._removed = np.sort(mix(removed))
        self.num_rows = sum(len(chunk) for chunk in self.chunks())

    def chunks(self) -> Iterator[Chunk]:
        """Ranges of hashes."""
        bits = range_bits(self._before, self._changed)
        for old, new in zip(by_range(self._before, bits), by_range(self._changed, bits)):
            _, replaced = _places(old.hashes, new.hashes)
            _, gone = _places(old.hashes, self._removed)
            stays = old.at(~(replaced | gone))
            if not len(new):
                yield stays
                continue
            both = joined([stays, new])
            yield both.at(np.argsort(both.hashes, kind="stable"))


def range_bits(*tables: OrderedRows) -> int:
    """So many bits of a hash make ranges of which each table's rows are about a chunk."""
    size = max(table.num_rows * (8 + row_bytes(table.width, table.row_type)) for table in tables)
    return min(max(-(-size // CHUNK_BYTES) - 1, 0).bit_length(), 24)


def by_range(table: OrderedRows, bits: int) -> Iterator[Chunk]:
    """The rows of each of the 2^bits ranges of hashes, also of empty ones."""
    chunks = table.chunks()
    waiting: Chunk | None = None
    empty = table.unknown.at(slice(0))
    for number in range(1 << bits):
        found = [empty]
        last = number + 1 == 1 << bits
        limit = np.uint64(0 if last else (number + 1) << (64 - bits))
        while True:
            if waiting is None:
                waiting = next(chunks, None)
                if waiting is None:
                    break
            end = len(waiting) if last else int(np.searchsorted(waiting.hashes, limit))
            found.append(waiting.at(slice(0, end)))
            if end < len(waiting):
                waiting = waiting.at(slice(end, None))
                break
            waiting = None
        yield joined(found) if len(found) > 1 else empty


def _places(hashes: np.ndarray, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each hash stands among others, which are sorted, and whether it does."""
    if not len(among):
        return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), bool)
    places = np.minimum(np.searchsorted(among, hashes), len(among) - 1)
    return places, among[places] == hashes


def _equal(one: Chunk, other: Chunk) -> np.ndarray:
    """Which rows have the same bits, bool `[n]`."""
    same = (_bits(one.values) == _bits(other.values)).all(axis=1)
    if one.scales is not None:
        assert other.scales is not None
        same &= _bits(one.scales) == _bits(other.scales)
    return same


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
