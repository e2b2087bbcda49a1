"""What a table counts while it is trained, over the PS that hold it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields

HOT_IDS = 32
"""Ids in a table's list of the most frequent."""


@dataclass(frozen=True)
class TableCounts:
    """A table on one PS, or the sum over all of them.

    rows: with an embedding. counted_ids: ids that are only counted (exact admission). payload_bytes: keys, embeddings,
    slots, frequencies and last steps of `rows`. bytes: all memory of the table, what `eviction.max_bytes` limits;
    equal to the payload where the engine does not tell. embedding_values: sum of the rows' widths. rows_by_tier: the
    narrowest first.

    Since the table was made: looked_up (ids, once per worker and step), hits (had a row), inserted (rows), admitted,
    refused (updates of ids without a row), promoted to a wider tier, evicted by age, by decayed frequency, to stay
    below `max_bytes`.

    pause_…_seconds: the longest that a part of the table was held by growth, by eviction, by a checkpoint.
    """

    rows: int
    payload_bytes: int
    bytes: int
    counted_ids: int = 0
    embedding_values: int = 0
    rows_by_tier: tuple[int, ...] = ()
    looked_up: int = 0
    hits: int = 0
    inserted: int = 0
    admitted: int = 0
    refused: int = 0
    promoted: int = 0
    evicted_age: int = 0
    evicted_frequency: int = 0
    evicted_bytes: int = 0
    pause_growth_seconds: float = 0.0
    pause_evict_seconds: float = 0.0
    pause_snapshot_seconds: float = 0.0

    @property
    def hit_share(self) -> float | None:
        """Look-ups that found a row, of all; None before the first."""
        return self.hits / self.looked_up if self.looked_up else None


@dataclass(frozen=True)
class TableStats:
    """A table over all PS.

    counts: whether its engine counts more than rows. per_ps: the same on each PS. hot_ids: the
    most frequent ids with their occurrences.
    """

    name: str
    counts: bool
    total: TableCounts
    per_ps: tuple[TableCounts, ...]
    hot_ids: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> int:
        return self.total.rows

    @property
    def payload_bytes(self) -> int:
        return self.total.payload_bytes

    @property
    def rows_by_tier(self) -> tuple[int, ...]:
        return self.total.rows_by_tier


def stats_of(name: str, counts: bool, per_ps: Sequence[tuple[TableCounts, Sequence[tuple[int, int]]]]) -> TableStats:
    """Sums what each PS says: counts, and its most frequent ids, which are all in its part of the ids."""
    parts = tuple(one for one, _ in per_ps)
    hot = sorted((pair for _, ids in per_ps for pair in ids), key=lambda pair: (-pair[1], pair[0]))
    return TableStats(name, counts, _sum(parts), parts, tuple(hot[:HOT_IDS]))


def counts_from(text: str | bytes) -> tuple[TableCounts, list[tuple[int, int]]]:
    """Reads the JSON of `ops.table.stats`: counts, and the most frequent ids."""
    told = json.loads(text)
    counts = TableCounts(
        counted_ids=told["counted_keys"],
        rows_by_tier=tuple(told["rows_by_tier"]),
        pause_growth_seconds=told["pause_growth_us"] / 1e6,
        pause_evict_seconds=told["pause_evict_us"] / 1e6,
        pause_snapshot_seconds=told["pause_snapshot_us"] / 1e6,
        **{field.name: told[field.name] for field in fields(TableCounts) if isinstance(told.get(field.name), int)},
    )
    return counts, [(key, occurrences) for key, occurrences in told["hot_keys"]]


def _sum(counts: Sequence[TableCounts]) -> TableCounts:
    values: dict = {}
    for field in fields(TableCounts):
        parts = [getattr(one, field.name) for one in counts]
        if field.name == "rows_by_tier":
            values[field.name] = tuple(sum(tier) for tier in zip(*parts))
        else:
            values[field.name] = max(parts) if field.name.startswith("pause_") else sum(parts)
    return TableCounts(**values)
