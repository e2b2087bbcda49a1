"""Counting texts that share their id with another text, exactly, in bounded memory.

Every distinct text of a column is a pair (id, second hash); pairs are kept sorted in files, one for each run. A
column's collisions are its distinct pairs less its distinct ids: counted one range of ids after another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.convert.hashed_ids import HashedTexts
from data.convert.mapped import forget

# Pairs held before they are made distinct again.
_HELD = 1 << 18

PAIR = np.dtype([("id", "<i8"), ("second", "<u8")])


class Pairs:
    """The distinct pairs of one column seen so far."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        self._held = 0
        self._limit = _HELD

    def add(self, hashes: HashedTexts) -> None:
        """Takes in the texts of a batch."""
        pairs = np.empty(len(hashes.ids), PAIR)
        pairs["id"], pairs["second"] = hashes.ids, hashes.seconds
        self._parts.append(pairs)
        self._held += len(pairs)
        if self._held > self._limit:
            self._parts = [distinct(np.concatenate(self._parts))]
            self._held = len(self._parts[0])
            self._limit = max(_HELD, 2 * self._held)

    @property
    def bytes(self) -> int:
        """Memory held."""
        return self._held * PAIR.itemsize

    def take(self) -> np.ndarray:
        """All pairs, sorted and distinct; forgets them."""
        pairs = distinct(np.concatenate(self._parts)) if self._parts else np.empty(0, PAIR)
        self.__init__()  # type: ignore[misc]
        return pairs


def distinct(pairs: np.ndarray) -> np.ndarray:
    """Each pair once, sorted by id, then second hash."""
    # Sorted by id first, which numpy does several times faster than by both; few ids have two second hashes.
    ordered = pairs[np.lexsort((pairs["second"], pairs["id"]))]
    if not len(ordered):
        return ordered
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered["id"][1:] != ordered["id"][:-1]) | (ordered["second"][1:] != ordered["second"][:-1])
    return ordered[new]


def count_collisions(files: Sequence[np.ndarray], most_pairs: int) -> tuple[int, int]:
    """(distinct ids, collisions) over sorted arrays of pairs, mapped from files; holds about `most_pairs` at once."""
    total = sum(map(len, files))
    ranges = max(1, -(-total // max(1, most_pairs)))
    # Hashes are spread evenly, so equal ranges of ids hold about equal numbers of pairs.
    bounds = [-(2**63) + (2**64 * part) // ranges for part in range(1, ranges)]
    ids = texts = 0
    starts = [0] * len(files)
    for bound in [*bounds, None]:
        ends = [len(file) if bound is None else int(np.searchsorted(file["id"], bound)) for file in files]
        slices = [file[a:b] for file, a, b in zip(files, starts, ends) if b > a]
        starts = ends
        if not slices:
            continue
        pairs = distinct(np.concatenate(slices))
        forget(files)
        texts += len(pairs)
        ids += 1 + int(np.count_nonzero(np.diff(pairs["id"]))) if len(pairs) else 0
    return ids, texts - ids
