"""The same job with one thing changed: widths, optimiser, threshold, type of values, number of PS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ps_cluster.plan.plan import Plan, plan_of
from ps_cluster.plan.types import Facts, TableShape


@dataclass(frozen=True)
class Variant:
    """What was changed, and the plan that follows."""

    change: str
    plan: Plan


def variants(facts: Facts, plan: Plan) -> list[Variant]:
    """Each change by itself; the number of PS stays that of `plan`, but where it is what changes."""
    found = [Variant(change, plan_of(changed, plan.ps)) for change, changed in _changes(facts)]
    for ps in dict.fromkeys((1, max(plan.ps // 2, 1), plan.ps * 2, plan.ps * 4)):
        if ps not in (plan.ps, 0):
            found.append(Variant(f"{ps} PS", plan_of(facts, ps)))
    return found


def _changes(facts: Facts) -> Iterator[tuple[str, Facts]]:
    for words, factor in (("half the widths", 0.5), ("twice the widths", 2.0)):
        yield words, _with(facts, lambda shape, f=factor: _widened(shape, f))
    for name, slots in (("sgd", 0), ("adagrad", 1), ("adam", 2)):
        if any(shape.slots != slots for shape in facts.tables):
            yield f"optimiser {name}", _with(facts, lambda shape, s=slots: replace(shape, slots=s))
    for threshold in (1, 2, 5, 10):
        if any(_threshold(shape) != threshold for shape in facts.tables) and any(
            load.growth is not None and load.rows is None for load in facts.loads.values()
        ):
            words = f"exact admission from {threshold} occurrences" if threshold > 1 else "no admission"
            kind = "exact" if threshold > 1 else "none"
            yield words, _with(facts, lambda shape, t=threshold, k=kind: replace(shape, admission=k, threshold=t))
    if any(shape.value_bytes != 2 for shape in facts.tables):
        yield "values of 16 bits", _with(facts, lambda shape: replace(shape, value_bytes=2))
    if facts.cluster.transport_bytes != 2:
        yield "transport of 16 bits", replace(facts, cluster=replace(facts.cluster, transport_bytes=2))


def _threshold(shape: TableShape) -> int:
    return shape.threshold if shape.admission in ("exact", "bloom") else 1


def _widened(shape: TableShape, factor: float) -> TableShape:
    tiers = tuple((max(round(dim * factor), 1), least) for dim, least in shape.tiers)
    return replace(shape, tiers=tiers) if len({dim for dim, _ in tiers}) == len(tiers) else shape


def _with(facts: Facts, change) -> Facts:
    return replace(
        facts,
        tables=tuple(change(shape) if shape.engine == "native" else shape for shape in facts.tables),
    )
