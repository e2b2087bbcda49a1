"""Which tables travel together: those whose rows have the same layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ops.embedding import INITIAL_KINDS, RowLayout, table_salt
from ps_cluster.job.schema import IdFeature, IdListFeature, SparseOptimizer, Table


@dataclass(frozen=True)
class FeatureUse:
    """One feature that looks ids up: its name, its table's index in the group, how a list is pooled (None: one id)."""

    name: str
    table: int
    pooling: str | None


@dataclass(frozen=True)
class TableGroup:
    """Tables of one row layout, and the features that use them; one request per PS and step for all of them."""

    name: str
    layout: RowLayout
    learning_rate: float
    tables: tuple[str, ...]
    features: tuple[FeatureUse, ...]


def optimizer_settings(optimizer: SparseOptimizer) -> tuple[float, ...]:
    """The settings in the order in which the push op expects them."""
    if optimizer.name == "adagrad":
        return (optimizer.initial_accumulator, optimizer.epsilon)
    if optimizer.name == "adam":
        return (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon)
    return ()


def plan_groups(
    tables: Mapping[str, Table],
    features: Sequence[IdFeature | IdListFeature],
    default_optimizer: SparseOptimizer,
    seed: int,
) -> list[TableGroup]:
    """Cuts tables into groups of equal dim and optimiser.

    Args:
      tables: all tables of a job by name, features' own included.
      features: the features that look ids up; a feature without `table` uses the table of its own name.
      default_optimizer: for tables that name none.
      seed: seed of initial values.

    Returns:
      Groups in the order of their first table; a table that no feature uses is in none.
    """
    used = {feature.table or feature.name for feature in features}
    members: dict[tuple, list[str]] = {}
    for name, table in tables.items():
        if name in used:
            members.setdefault((table.dim, table.optimizer or default_optimizer), []).append(name)
    groups: list[TableGroup] = []
    for (dim, optimizer), names in members.items():
        layout = RowLayout(
            dim=dim,
            optimizer=optimizer.name,
            optimizer_settings=optimizer_settings(optimizer),
            salts=tuple(table_salt(name) for name in names),
            initial_kinds=tuple(INITIAL_KINDS[tables[name].initializer.kind] for name in names),
            initial_scales=tuple(tables[name].initializer.scale for name in names),
            seed=seed,
        )
        uses = tuple(
            FeatureUse(feature.name, names.index(feature.table or feature.name), getattr(feature, "pooling", None))
            for feature in features
            if (feature.table or feature.name) in names
        )
        groups.append(TableGroup(f"group-{len(groups)}", layout, optimizer.learning_rate, tuple(names), uses))
    return groups
