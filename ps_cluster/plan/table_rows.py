"""Rows of one table at the horizon."""

from __future__ import annotations

from typing import Any

from ps_cluster.plan import native_memory as native
from ps_cluster.plan.curve import Growth
from ps_cluster.plan.figure import Figure, figure, given
from ps_cluster.plan.types import Cluster, TableLoad, TableShape

_ALL_OF_THEM = "how often ids come is not known: as if every id had reached the threshold"


def rows_figures(shape: TableShape, load: TableLoad, rows: float, cluster: Cluster) -> dict[str, Figure]:
    """Ids and rows of a table after `rows` rows of samples, `rows` of them by tier, and ids that are only counted."""
    found: dict[str, Figure] = {}
    occurrences = figure(
        "ids", "sample_rows * ids_per_row", load.source, sample_rows=rows, ids_per_row=load.occurrences_per_row
    )
    found["occurrences"] = occurrences
    if load.rows is not None:
        found["ids"] = found["rows"] = given("rows", "rows", load.rows, load.source)
        return found
    if load.growth is None:
        found["ids"] = given("ids", "ids", load.ids or 0, load.source)
    else:
        found["ids"] = _reached(load, occurrences, 1)
        found |= _range(load.growth, found["ids"], occurrences)
    found["rows"] = _admitted(shape, load, found["ids"], occurrences, cluster)
    found["rows"] = _not_evicted(shape, load, found["rows"], occurrences, cluster)
    if shape.admission == "exact" and shape.threshold > 1:
        found["counted_ids"] = figure(
            "ids", "max(ids - rows, 0)", "ids without a row, which are counted", ids=found["ids"], rows=found["rows"]
        )
    if len(shape.tiers) > 1:
        found |= _by_tier(shape, load, found["rows"], occurrences, cluster)
    return found


def _reached(load: TableLoad, occurrences: Figure, threshold: int) -> Figure:
    assert load.growth is not None
    together = f", {load.growth.per_visit:.3g} of an id at once" if load.growth.per_visit > 1.2 else ""
    return figure(
        "ids",
        _IDS,
        f"{load.source}; fitted to {load.growth.occurrences:,.0f} occurrences{together}",
        occurrences=occurrences,
        **_of(load.growth, threshold),
    )


_IDS = "share * ids_at_least(occurrences, times, rates, ids, born, new)"


def _of(growth: Growth, threshold: int) -> dict[str, Any]:
    """Inputs of `_IDS`."""
    times = growth.times(threshold)
    return {
        "share": growth.share(growth.visits(threshold)), "times": times, "rates": growth.rates, "ids": growth.ids,
        "born": growth.born, "new": growth.new_at_least(times),
    }  # fmt: skip


def _range(growth: Growth, ids: Figure, occurrences: Figure) -> dict[str, Figure]:
    """Within which the ids should lie: the farther from what was read, the wider."""
    far = figure("", "max(log(max(occurrences, 1) / max(read, 1)) / log(10), 0)", "powers of ten beyond what was read",
                 occurrences=occurrences, read=growth.occurrences)  # fmt: skip
    return {
        "ids_at_least": figure("ids", "max(ids * low ** far, min(ids, seen))", "19 of 20 logs should have more",
                               ids=ids, low=growth.low, far=far, seen=growth.different),
        "ids_at_most": figure("ids", "ids * high ** far", "19 of 20 logs should have fewer", ids=ids,
                              high=growth.high, far=far),
    }  # fmt: skip


def _times(threshold: int, cluster: Cluster) -> int:
    """Occurrences in the samples that are `threshold` of training, which counts each once per epoch."""
    return max(-(-threshold // cluster.epochs), 1)


def _admitted(shape: TableShape, load: TableLoad, ids: Figure, occurrences: Figure, cluster: Cluster) -> Figure:
    if shape.admission == "none" or (shape.admission != "probability" and shape.threshold <= 1):
        return figure("rows", "ids", ids=ids)
    if load.growth is None:
        return figure("rows", "ids", _ALL_OF_THEM, ids=ids)
    if shape.admission == "probability":
        return figure(
            "rows",
            _IDS.replace("occurrences", "occurrences * epochs * probability"),
            "each occurrence gives the id its row with that probability",
            occurrences=occurrences, epochs=cluster.epochs, probability=shape.probability, **_of(load.growth, 1),
        )  # fmt: skip
    reached = _reached(load, occurrences, _times(shape.threshold, cluster))
    if shape.admission == "exact":
        return reached
    counters, hashes = native.bloom_shape(shape.capacity, shape.error)
    return figure(
        "rows",
        "reached + (ids - reached) * (1 - exp(-hashes * ids / counters)) ** hashes",
        "with ids whose counters all belong to others too: at most, they need so many more occurrences themselves",
        reached=reached, ids=ids, hashes=hashes, counters=counters * native.BLOOM_SEGMENTS,
    )  # fmt: skip


def _not_evicted(shape: TableShape, load: TableLoad, rows: Figure, occurrences: Figure, cluster: Cluster) -> Figure:
    if load.growth is None:
        return rows
    batch = cluster.batch_rows * cluster.workers
    windows: dict[str, float] = {}
    if shape.max_age_steps:
        windows["rows that came within max_age_steps"] = float(shape.max_age_steps) * batch
    if shape.min_frequency and shape.half_life_steps:
        windows["rows whose decayed frequency is not below min_frequency"] = shape.half_life_steps / 0.6931 * batch
    for words, window in windows.items():
        least = max(shape.min_frequency, 1.0) if "decayed" in words else 1.0
        rows = figure(
            "rows",
            f"min(rows, {_IDS.replace('occurrences', 'window_rows * ids_per_row')})",
            f"{words}; any stretch of the log is taken to be like its beginning",
            rows=rows, window_rows=window, ids_per_row=load.occurrences_per_row, **_of(load.growth, int(least)),
        )  # fmt: skip
    return rows


def _by_tier(
    shape: TableShape, load: TableLoad, rows: Figure, occurrences: Figure, cluster: Cluster
) -> dict[str, Figure]:
    if load.growth is None:
        return {
            f"rows_of_{dim}": figure("rows", "rows" if number == 0 else "0", _ALL_OF_THEM, rows=rows)
            for number, (dim, _) in enumerate(reversed(shape.tiers))
        }
    from_here = [rows]
    for _, least in shape.tiers[1:]:
        reached = _reached(load, occurrences, _times(max(least, 1), cluster))
        from_here.append(figure("rows", "min(rows, reached)", rows=rows, reached=reached))
    found = {}
    for number, (dim, _) in enumerate(shape.tiers):
        above = from_here[number + 1] if number + 1 < len(from_here) else 0
        found[f"rows_of_{dim}"] = figure(
            "rows", "reached - reached_next", "ids that have reached this tier, not the next",
            reached=from_here[number], reached_next=above,
        )  # fmt: skip
        if number + 1 < len(shape.tiers):
            found[f"most_rows_of_{dim}"] = _most(shape, load, number, found[f"rows_of_{dim}"], occurrences, cluster)
    return found


def _most(
    shape: TableShape, load: TableLoad, number: int, rows: Figure, occurrences: Figure, cluster: Cluster
) -> Figure:
    """Rows of a tier when it had most: the memory of rows that moved on is there for rows of the same width only."""
    assert load.growth is not None
    first = shape.threshold if shape.admission in ("exact", "bloom") else 1
    thresholds = [_times(max(least, first), cluster) for least in (shape.tiers[number][1], shape.tiers[number + 1][1])]
    least, after = (_of(load.growth, threshold) for threshold in thresholds)
    if load.growth.shares or least["times"] >= after["times"]:
        return figure("rows", "rows", rows=rows)
    return figure(
        "rows",
        "max(rows, most_between(occurrences, times, times_next, rates, ids, born, new, new_next))",
        "when the tier had most rows: what moved on leaves its place to rows of the same width only",
        rows=rows, occurrences=occurrences, times=least["times"], times_next=after["times"], rates=least["rates"],
        ids=least["ids"], born=least["born"], new=least["new"], new_next=after["new"],
    )  # fmt: skip
