"""Which tables travel together: those whose rows have the same layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ops import embedding as ops
from ops.embedding import INITIAL_KINDS, RowLayout, table_salt
from ps_cluster.job.schema import IdFeature, IdListFeature
from ps_cluster.job.table_schema import SparseOptimizer, Table


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


_SETTINGS = {
    "sgd": (),
    "momentum": ("momentum", "nesterov"),
    "adagrad": ("initial_accumulator", "epsilon", "decay", "decay_steps"),
    "adam": ("beta_1", "beta_2", "epsilon"),
    "adamw": ("beta_1", "beta_2", "epsilon", "weight_decay"),
    "rmsprop": ("rho", "momentum", "epsilon"),
    "ftrl": ("learning_rate_power", "initial_accumulator", "l1", "l2", "l2_shrinkage", "beta"),
}


def optimizer_settings(optimizer: SparseOptimizer) -> tuple[float, ...]:
    """The settings in the order in which the push op expects them."""
    return tuple(float(getattr(optimizer, name)) for name in (*_SETTINGS[optimizer.name], "clip_norm"))


def plan_groups(
    tables: Mapping[str, Table],
    features: Sequence[IdFeature | IdListFeature],
    default_optimizer: SparseOptimizer,
    seed: int,
) -> list[TableGroup]:
    """Cuts tables into groups of equal tiers, engine, value type and optimiser.

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
            optimizer = table.optimizer or default_optimizer
            members.setdefault((tiers_of(table), table.engine, table.values, optimizer), []).append(name)
    groups: list[TableGroup] = []
    for (tiers, engine, values, optimizer), names in members.items():
        layout = RowLayout(
            tiers=tiers,
            engine=engine,
            value_type=values,
            optimizer=optimizer.name,
            optimizer_settings=optimizer_settings(optimizer),
            salts=tuple(table_salt(name) for name in names),
            initial_kinds=tuple(INITIAL_KINDS[tables[name].initializer.kind] for name in names),
            initial_scales=tuple(tables[name].initializer.scale for name in names),
            admissions=tuple(ops.Admission(**tables[name].admission.model_dump()) for name in names),
            evictions=tuple(_eviction(tables[name]) for name in names),
            seed=seed,
        )
        uses = tuple(
            FeatureUse(feature.name, names.index(feature.table or feature.name), getattr(feature, "pooling", None))
            for feature in features
            if (feature.table or feature.name) in names
        )
        groups.append(TableGroup(f"group-{len(groups)}", layout, optimizer.learning_rate, tuple(names), uses))
    return groups


def tiers_of(table: Table) -> tuple[ops.Tier, ...]:
    """The widths of a table's rows, the narrowest first."""
    if table.tiers is None:
        assert table.dim is not None, "a checked table has one of both"
        return (ops.Tier(table.dim),)
    return tuple(ops.Tier(tier.dim, tier.min_frequency) for tier in table.tiers)


def _eviction(table: Table) -> ops.Eviction:
    rules = table.eviction.model_dump(exclude_none=True)
    return ops.Eviction(**rules)
