"""The ids of a table seen in one pass, counted exactly for a share of them that a hash picks, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from data.scan.value_codes import mixed
from ps_cluster.plan.arrivals import FEW
from ps_cluster.plan.curve import Growth
from ps_cluster.plan.fit import growth_of, mixed_growth_of

_HOT = 512
_LED = 0.97
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


_NEVER = np.int64(2**61)


@dataclass
class _Told:
    """Of each id, `[ids]`. first: row in which it came first. held: see `SampledIds._held_by`. begun, last: rows in
    which its visits in a stripe begin and end."""

    counts: np.ndarray
    first: np.ndarray
    held: np.ndarray
    visits: np.ndarray
    begun: np.ndarray
    last: np.ndarray
    led_visits: np.ndarray
    led_begun: np.ndarray
    led_last: np.ndarray

    @staticmethod
    def nothing(ids: int) -> _Told:
        return _Told(**{one.name: np.zeros(ids, np.float64 if one.name == "held" else np.int64)
                        for one in fields(_Told)})  # fmt: skip

    def chosen(self, which: np.ndarray) -> _Told:
        return _Told(**{name: values[which] for name, values in vars(self).items()})

    def with_new(self, at: np.ndarray, new: _Told) -> _Told:
        return _Told(**{name: np.insert(values, at, getattr(new, name)) for name, values in vars(self).items()})

    def add(self, at: np.ndarray, more: _Told, together_rows: int) -> None:
        """What the next rows tell of the ids at `at`."""
        self.counts[at] += more.counts
        self.held[at] += more.held
        self.visits[at] += more.visits - (more.begun - self.last[at] <= together_rows)
        self.last[at] = more.last
        some = more.led_visits > 0
        led = at[some]
        self.led_visits[led] += more.led_visits[some] - (more.led_begun[some] - self.led_last[led] <= together_rows)
        self.led_last[led] = more.led_last[some]


class SampledIds:
    """Ids whose hash begins with `level` zero bits; the level rises when they are more than `limit`.

    Of each: how often it came, where it came first, and how likely a batch holds it. Visits are counted twice: of all
    features, and of those that lead. Lists repeat what the features that lead have shown before, as a history does;
    where those have nearly all ids, their visits alone tell how ids grow.
    """

    def __init__(self, limit: int, mixing: Mixing):
        self._limit = limit
        self._mixing = mixing
        self.level = 0
        self.occurrences = 0
        self.rows = 0
        self._ids = np.zeros(0, np.int64)
        self._of = _Told.nothing(0)
        self._hot: dict[int, int] = {}
        self._hot_occurrences = 0

    def add(self, ids: np.ndarray, row: np.ndarray, leads: np.ndarray, rows: int, look_for_hot: bool) -> None:
        """A stripe's ids int64 `[ids]`, and of each its row there, ascending for each feature, and whether its feature
        leads; the stripe has `rows` rows."""
        start, self.rows = self.rows, self.rows + rows
        self.occurrences += len(ids)
        if look_for_hot:
            self._note_hot(ids)
        places = np.flatnonzero(self._picked(ids))
        if not len(places):
            return
        order = np.lexsort((row[places], ids[places]))
        places = places[order]
        ids, row, leads = ids[places], row[places], leads[places]
        starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
        unit = row if self._mixing.window_rows else row // self._mixing.batch_rows
        other = np.ones(len(ids), bool)
        other[1:] = (ids[1:] != ids[:-1]) | (unit[1:] != unit[:-1])
        units = np.add.reduceat(other.astype(np.int64), starts)
        told = _Told.nothing(len(starts))
        told.counts = np.diff(np.append(starts, len(ids)))
        told.first = start + row[starts]
        told.held = self._held_by(units)
        told.visits, told.begun, told.last = self._visits(ids, row + start, ids[starts])
        told.led_visits, told.led_begun, told.led_last = self._visits(ids[leads], row[leads] + start, ids[starts])
        self._merge(ids[starts], told)
        while len(self._ids) > self._limit:
            self.level += 1
            kept = self._picked(self._ids)
            self._ids, self._of = self._ids[kept], self._of.chosen(kept)

    def _visits(self, ids: np.ndarray, row: np.ndarray, every: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Visits of each of `every`, the rows in which the first begins and the last ends. ids, row: sorted."""
        number = np.zeros(len(every), np.int64)
        begun, last = np.full(len(every), _NEVER), np.full(len(every), -_NEVER)
        if len(ids):
            starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
            ends = np.append(starts[1:], len(ids)) - 1
            apart = np.ones(len(ids), bool)
            apart[1:] = (ids[1:] != ids[:-1]) | (row[1:] - row[:-1] > self._mixing.together_rows)
            at = np.searchsorted(every, ids[starts])
            number[at] = np.add.reduceat(apart.astype(np.int64), starts)
            begun[at], last[at] = row[starts], row[ends]
        return number, begun, last

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

    def _merge(self, ids: np.ndarray, told: _Told) -> None:
        at = np.searchsorted(self._ids, ids)
        there = at < len(self._ids)
        there[there] = self._ids[at[there]] == ids[there]
        self._of.add(at[there], told.chosen(there), self._mixing.together_rows)
        new = ~there
        if new.any():
            self._ids = np.insert(self._ids, at[new], ids[new])
            self._of = self._of.with_new(at[new], told.chosen(new))

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
        of, led = self._of, self._of.led_visits > 0
        leads = bool(led.sum() >= _LED * len(led))
        visits = of.led_visits[led] if leads else of.visits
        counts, first = (of.counts[led], of.first[led]) if leads else (of.counts, of.first)
        # Of an id that is hardly ever away for long, visits say nothing.
        always = counts * float(self._mixing.together_rows) > self.rows
        visits = np.where(always, np.maximum(counts, visits), visits)
        few = visits <= FEW
        together = float(counts[few].sum()) / max(float(visits[few].sum()), 1.0) if few.any() else 1.0
        scale = self.scale * len(self._ids) / max(len(visits), 1)
        return growth_of(visits, first / max(self.rows, 1), self.occurrences, scale, max(together, 1.0))

    def at_least(self, threshold: int) -> float:
        """Ids that came so often."""
        return float(np.count_nonzero(self._of.counts >= threshold)) * self.scale

    def in_a_batch(self) -> float:
        """Expected number of different ids in a worker's batch, if the log were what was read."""
        if not self.rows:
            return 0.0
        mixing = self._mixing
        if not mixing.window_rows:
            return float(self._of.held.sum()) * self.scale * min(mixing.batch_rows / self.rows, 1.0)
        return float(-np.expm1(self._of.held).sum()) * self.scale

    def mixed_growth(self) -> Growth:
        """How ids grow with occurrences if all rows of the log were mixed, so that none come together."""
        return mixed_growth_of(self._of.counts, self.occurrences, self.scale)

    def in_a_mixed_batch(self) -> float:
        """The same if all rows that were read were mixed before."""
        share = min(self._mixing.batch_rows / max(self.rows, 1), 1 - 1e-12)
        return float(-np.expm1(self._of.counts * np.log1p(-share)).sum()) * self.scale

    def hot(self, most: int) -> list[tuple[int, float]]:
        """The most frequent ids with their shares of all occurrences, from the stripes that were looked at."""
        ranked = sorted(self._hot.items(), key=lambda one: (-one[1], one[0]))[:most]
        return [(key, count / max(self._hot_occurrences, 1)) for key, count in ranked]


def _hashed(ids: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return mixed(ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) ^ _SALT)
