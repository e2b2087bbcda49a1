"""Rules between the fields of embedding tables."""

from __future__ import annotations

from collections.abc import Iterator

from ps_cluster.job.draft import Draft
from ps_cluster.job.problems import Path, Problem, listed, quoted
from ps_cluster.job.schema import DenseFeature
from ps_cluster.job.table_schema import Table


def table_problems(draft: Draft) -> Iterator[Problem]:
    """Broken rules of the tables that are there, and of what features say of their own tables."""
    for name, table in (draft.tables or {}).items():
        if table is not None:
            yield from _widths(("tables", name), table)
            yield from _eviction(("tables", name, "eviction"), table, draft)
            yield from _engine(("tables", name), table)
    for index, feature in enumerate(draft.features):
        if feature is None or isinstance(feature, DenseFeature) or feature.admission is None:
            continue
        if feature.dim is None and feature.table is not None:
            yield Problem(
                ("features", index, "admission"),
                f"'admission' of a feature with 'dim', or under table {quoted(feature.table)}",
                f"it beside table {quoted(feature.table)}",
            )


def _widths(path: Path, table: Table) -> Iterator[Problem]:
    if table.dim is None and table.tiers is None:
        yield Problem(path, "'dim' or 'tiers'", "neither")
    elif table.dim is not None and table.tiers is not None:
        yield Problem((*path, "tiers"), "either 'dim' or 'tiers'", f"both, and dim {table.dim}")
    if table.output is not None and table.tiers is None:
        yield Problem((*path, "output"), "'output' only beside 'tiers'", "no 'tiers'")
    tiers = table.tiers or []
    if tiers and tiers[0].min_frequency != 0:
        where = (*path, "tiers", 0, "min_frequency")
        yield Problem(where, "0 in the first tier", str(tiers[0].min_frequency))
    for index, (before, tier) in enumerate(zip(tiers, tiers[1:]), start=1):
        for field in ("dim", "min_frequency"):
            least, found = getattr(before, field), getattr(tier, field)
            if found <= least:
                expected = f"more than in the tier before, {least}"
                yield Problem((*path, "tiers", index, field), expected, str(found))


def _eviction(path: Path, table: Table, draft: Draft) -> Iterator[Problem]:
    rules = table.eviction
    if rules.min_frequency is not None and rules.half_life_steps is None:
        yield Problem((*path, "min_frequency"), "'half_life_steps' beside 'min_frequency'", "no such field")
    if rules.max_age_hours is not None and draft.data is not None and draft.data.time is None:
        yield Problem((*path, "max_age_hours"), "'data.time' for 'max_age_hours'", "no such field")
    if rules.log and not any(value for name, value in rules.model_dump().items() if name != "log"):
        yield Problem((*path, "log"), "a rule by which rows go beside 'log'", "none")


def _engine(path: Path, table: Table) -> Iterator[Problem]:
    if table.engine == "native":
        return
    asked = []
    if table.tiers is not None:
        asked.append("tiers")
    if table.values != "float32":
        asked.append("values")
    if table.admission.kind != "none":
        asked.append("admission")
    if any(table.eviction.model_dump().values()):
        asked.append("eviction")
    if asked:
        expected = f"'engine: native' for {listed(asked)}"
        yield Problem((*path, "engine"), expected, quoted(table.engine))
