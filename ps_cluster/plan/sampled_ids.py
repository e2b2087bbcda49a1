"""The ids of a table seen in one pass, counted exactly for a share of them that a hash picks, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from data.scan.value_codes import mixed
from ps_cluster.plan.curve import FEW, LARGEST, Growth, corrected, growth_of

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
    def together_rows(self) -> int:
        """Rows within which occurrences of an id are one visit of it."""
        return max(self.total_rows // 20_000, 16)

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
        self._last_row = np.zeros(0, np.int64)
        self._visits = np.zeros(0, np.int64)
        self._held = np.zeros(0, np.float64)
        self._hot: dict[int, int] = {}
        self._hot_occurrences = 0
        self._half: Growth | None = None

    def add(self, ids: np.ndarray, row: np.ndarray, rows: int, look_for_hot: bool) -> None:
        """A stripe's ids int64 `[ids]`, and the row in it of each, ascending for each feature; it has `rows` rows."""
        start, self.occurrences = self.occurrences, self.occurrences + len(ids)
        start_row, self.rows = self.rows, self.rows + rows
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
        apart = np.ones(len(ids), bool)
        apart[1:] = (ids[1:] != ids[:-1]) | (row[1:] - row[:-1] > self._mixing.together_rows)
        self._merge(
            ids[starts],
            ends - starts,
            start + np.minimum.reduceat(places, starts),
            self._held_by(units),
            np.add.reduceat(apart.astype(np.int64), starts),
            start_row + row[starts],
            start_row + row[ends - 1],
        )
        while len(self._ids) > self._limit:
            self.level += 1
            self._keep(self._picked(self._ids))
        if self._half is None and self.rows * 2 >= self._mixing.total_rows:
            self._half = self._growth()

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

    def _merge(
        self,
        ids: np.ndarray,
        counts: np.ndarray,
        first: np.ndarray,
        held: np.ndarray,
        visits: np.ndarray,
        first_row: np.ndarray,
        last_row: np.ndarray,
    ) -> None:
        at = np.searchsorted(self._ids, ids)
        there = at < len(self._ids)
        there[there] = self._ids[at[there]] == ids[there]
        self._counts[at[there]] += counts[there]
        self._held[at[there]] += held[there]
        goes_on = first_row[there] - self._last_row[at[there]] <= self._mixing.together_rows
        self._visits[at[there]] += visits[there] - goes_on
        self._last_row[at[there]] = last_row[there]
        new = ~there
        if new.any():
            where = at[new]
            self._ids = np.insert(self._ids, where, ids[new])
            self._counts = np.insert(self._counts, where, counts[new])
            self._first = np.insert(self._first, where, first[new])
            self._held = np.insert(self._held, where, held[new])
            self._visits = np.insert(self._visits, where, visits[new])
            self._last_row = np.insert(self._last_row, where, last_row[new])

    def _keep(self, kept: np.ndarray) -> None:
        self._ids, self._counts = self._ids[kept], self._counts[kept]
        self._first, self._held = self._first[kept], self._held[kept]
        self._visits, self._last_row = self._visits[kept], self._last_row[kept]

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
        found = self._growth()
        if self._half is None or self._half.occurrences >= 0.75 * found.occurrences:
            return found
        return corrected(found, self._half, len(self._ids))

    def _growth(self) -> Growth:
        few = self._visits <= FEW
        visits = int(self._visits[few].sum())
        per_visit = float(self._counts[few].sum()) / visits if visits else 1.0
        counts = np.minimum(self._visits, LARGEST)
        late = self._first >= self.occurrences / 2
        size = LARGEST + 1
        return growth_of(
            np.bincount(counts, minlength=size)[1:].tolist(),
            np.bincount(counts[late], minlength=size)[1:].tolist(),
            self.occurrences,
            self.scale,
            per_visit,
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

    def mixed_growth(self) -> Growth:
        """How ids grow with occurrences if all rows of the log were mixed, so that none come together."""
        counts = np.bincount(np.minimum(self._counts, LARGEST), minlength=LARGEST + 1)[1:]
        return growth_of(counts.tolist(), [0] * LARGEST, self.occurrences, self.scale)

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
