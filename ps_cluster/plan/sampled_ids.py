"""The ids of a table seen in one pass, counted exactly for a share of them that a hash picks, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from data.scan.value_codes import mixed
from ps_cluster.plan.curve import LARGEST, Growth, growth_of

_HOT = 512
_SALT = np.uint64(0x5851F42D4C957F2D)


@dataclass(frozen=True)
class Mixing:
    """How the trainer's batches are drawn from stripes.

    batch_rows: of a worker. window_rows: rows that are mixed before a batch is drawn; 0: batches are runs of the file.
    slices: parts into which the rows of a stripe are dealt, which come at times of their own. total_rows: read in all.
    """

    batch_rows: int
    window_rows: int
    slices: int
    total_rows: int

    @property
    def drawn(self) -> float:
        """Share of a window that a batch is."""
        return min(self.batch_rows / max(min(self.window_rows, self.total_rows), 1), 1.0)

    @property
    def in_window(self) -> float:
        """Share of all parts of stripes that are in a window."""
        return min(max(self.window_rows, self.batch_rows) / max(self.total_rows, 1), 1.0)


class SampledIds:
    """Ids whose hash begins with `level` zero bits; the level rises when they are more than `limit`.

    Of each: how often it came, where it came first, and how likely a batch holds it.
    """

    def __init__(self, limit: int, mixing: Mixing):
        self._limit = limit
        self._mixing = mixing
        self.level = 0
        self.occurrences = 0
        self.rows = 0
        self._ids = np.zeros(0, np.int64)
        self._counts = np.zeros(0, np.int64)
        self._first = np.zeros(0, np.int64)
        self._held = np.zeros(0, np.float64)
        self._hot: dict[int, int] = {}
        self._hot_occurrences = 0

    def add(self, ids: np.ndarray, row: np.ndarray, rows: int, look_for_hot: bool) -> None:
        """A stripe's ids int64 `[ids]`, and the row in it of each, ascending for each feature; it has `rows` rows."""
        start, self.occurrences = self.occurrences, self.occurrences + len(ids)
        self.rows += rows
        if look_for_hot:
            self._note_hot(ids)
        places = np.flatnonzero(self._picked(ids))
        if not len(places):
            return
        order = np.lexsort((row[places], ids[places]))
        ids, row, places = ids[places][order], row[places][order], places[order]
        starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
        ends = np.append(starts[1:], len(ids))
        unit = row if self._mixing.window_rows else row // self._mixing.batch_rows
        other = np.ones(len(ids), bool)
        other[1:] = (ids[1:] != ids[:-1]) | (unit[1:] != unit[:-1])
        units = np.add.reduceat(other.astype(np.int64), starts)
        self._merge(ids[starts], ends - starts, start + np.minimum.reduceat(places, starts), self._held_by(units))
        while len(self._ids) > self._limit:
            self.level += 1
            self._keep(self._picked(self._ids))

    def _picked(self, ids: np.ndarray) -> np.ndarray:
        if not self.level:
            return np.ones(len(ids), bool)
        return _hashed(ids) >> np.uint64(64 - self.level) == 0

    def _held_by(self, units: np.ndarray) -> np.ndarray:
        """units: rows of the stripe with an id; or, without shuffling, its batches with it, which count as they are.
        Else the logarithm of the probability that no part of the stripe gives the id to a batch, below 0."""
        mixing = self._mixing
        if not mixing.window_rows:
            return units.astype(np.float64)
        parts = np.minimum(units, mixing.slices)
        gives = -np.expm1(units / parts * np.log1p(-min(mixing.drawn, 1 - 1e-12)))
        return parts * np.log1p(-np.minimum(mixing.in_window * gives, 1 - 1e-12))

    def _merge(self, ids: np.ndarray, counts: np.ndarray, first: np.ndarray, held: np.ndarray) -> None:
        at = np.searchsorted(self._ids, ids)
        there = at < len(self._ids)
        there[there] = self._ids[at[there]] == ids[there]
        self._counts[at[there]] += counts[there]
        self._held[at[there]] += held[there]
        new = ~there
        if new.any():
            where = at[new]
            self._ids = np.insert(self._ids, where, ids[new])
            self._counts = np.insert(self._counts, where, counts[new])
            self._first = np.insert(self._first, where, first[new])
            self._held = np.insert(self._held, where, held[new])

    def _keep(self, kept: np.ndarray) -> None:
        self._ids, self._counts = self._ids[kept], self._counts[kept]
        self._first, self._held = self._first[kept], self._held[kept]

    def _note_hot(self, ids: np.ndarray) -> None:
        some, counts = np.unique(ids, return_counts=True)
        top = np.argsort(-counts, kind="stable")[:_HOT]
        for key, count in zip(some[top].tolist(), counts[top].tolist()):
            self._hot[key] = self._hot.get(key, 0) + count
        self._hot_occurrences += len(ids)
        if len(self._hot) > 8 * _HOT:
            kept = sorted(self._hot.items(), key=lambda one: (-one[1], one[0]))[: 2 * _HOT]
            self._hot = dict(kept)

    # --- Results -------------------------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """So many ids stand behind each that is kept."""
        return float(2**self.level)

    @property
    def different(self) -> float:
        """Ids seen, all together."""
        return len(self._ids) * self.scale

    @property
    def relative_error(self) -> float:
        """Of `different`, in 95 of 100 cases."""
        return 0.0 if not self.level else float(2 / np.sqrt(max(len(self._ids), 1)))

    def growth(self) -> Growth:
        """How ids grow with occurrences."""
        counts = np.minimum(self._counts, LARGEST)
        late = self._first >= self.occurrences / 2
        size = LARGEST + 1
        return growth_of(
            np.bincount(counts, minlength=size)[1:].tolist(),
            np.bincount(counts[late], minlength=size)[1:].tolist(),
            self.occurrences,
            self.scale,
        )

    def at_least(self, threshold: int) -> float:
        """Ids that came so often."""
        return float(np.count_nonzero(self._counts >= threshold)) * self.scale

    def in_a_batch(self) -> float:
        """Expected number of different ids in a worker's batch, if the log were what was read."""
        if not self.rows:
            return 0.0
        mixing = self._mixing
        if not mixing.window_rows:
            return float(self._held.sum()) * self.scale * min(mixing.batch_rows / self.rows, 1.0)
        return float(-np.expm1(self._held).sum()) * self.scale

    def in_a_mixed_batch(self) -> float:
        """The same if all rows that were read were mixed before."""
        share = min(self._mixing.batch_rows / max(self.rows, 1), 1 - 1e-12)
        return float(-np.expm1(self._counts * np.log1p(-share)).sum()) * self.scale

    def hot(self, most: int) -> list[tuple[int, float]]:
        """The most frequent ids with their shares of all occurrences, from the stripes that were looked at."""
        ranked = sorted(self._hot.items(), key=lambda one: (-one[1], one[0]))[:most]
        return [(key, count / max(self._hot_occurrences, 1)) for key, count in ranked]


def _hashed(ids: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return mixed(ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ _SALT)
