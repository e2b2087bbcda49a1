"""The native embedding table: how one is made, read and inspected by its handle, as typed functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import tensorflow as tf

from ops.embedding import INITIAL_KINDS, Admission, Eviction, RowLayout, Tier
from ops.library import load

END = -1
"""Cursor of `export_block` when all rows have been given."""


@dataclass(frozen=True)
class TableConfig:
    """What a native table is; every field is a part of it, so a table of one name has one config.

    tiers: widths of rows, the narrowest first. value_type: of stored embeddings, `float32`, `float16` or `bfloat16`.
    optimizer: `none`: rows without slots, which `push` does not update. optimizer_settings: in the order of
    `ops/cc/table/row_optimizer.h`. initial_kind: one of INITIAL_KINDS. salt: tells tables apart in hashes.
    track_removed: remember removed ids, for delta checkpoints. num_sub_tables: a power of two.
    """

    tiers: tuple[Tier, ...]
    value_type: str = "float32"
    optimizer: str = "none"
    optimizer_settings: tuple[float, ...] = ()
    initial_kind: str = "zeros"
    initial_scale: float = 0.0
    salt: int = 0
    seed: int = 0
    admission: Admission = field(default_factory=Admission)
    eviction: Eviction = field(default_factory=Eviction)
    track_removed: bool = False
    num_sub_tables: int = 256


def config_of(layout: RowLayout, table: int, track_removed: bool = False) -> TableConfig:
    """The config of a group's table."""
    kinds = {number: kind for kind, number in INITIAL_KINDS.items()}
    return TableConfig(
        tiers=layout.tiers,
        value_type=layout.value_type,
        optimizer=layout.optimizer,
        optimizer_settings=layout.optimizer_settings,
        initial_kind=kinds[layout.initial_kinds[table]],
        initial_scale=layout.initial_scales[table],
        salt=layout.salts[table],
        seed=layout.seed,
        admission=layout.admissions[table],
        eviction=layout.evictions[table],
        track_removed=track_removed,
    )


def create(name: str, config: TableConfig, node: str | None = None) -> tf.Tensor:
    """Returns the handle of the table `name`, a resource; makes the table when it is not there yet.

    node: name of the op in a graph.

    The handle serves TensorFlow's lookup table ops too: int64 keys, values `[width]` of the value type.

    Raises:
      tf.errors.InvalidArgumentError: a wrong setting, or there is a table of that name with another config.
    """
    return load().ps_cluster_table(
        shared_name=name,
        value_dtype=tf.as_dtype(config.value_type),
        dims=[tier.dim for tier in config.tiers],
        min_frequencies=[tier.min_frequency for tier in config.tiers],
        optimizer=config.optimizer,
        optimizer_settings=list(config.optimizer_settings),
        initial_kind=INITIAL_KINDS[config.initial_kind],
        initial_scale=config.initial_scale,
        salt=config.salt,
        seed=config.seed,
        admission=config.admission.kind,
        admission_threshold=config.admission.threshold,
        admission_probability=config.admission.probability,
        bloom_capacity=config.admission.capacity,
        bloom_error=config.admission.error,
        cold_value=config.admission.cold_value,
        max_age_steps=config.eviction.max_age_steps,
        max_age_hours=config.eviction.max_age_hours,
        half_life_steps=config.eviction.half_life_steps,
        min_frequency=config.eviction.min_frequency,
        max_bytes=config.eviction.max_bytes,
        track_removed=config.track_removed,
        num_sub_tables=config.num_sub_tables,
        name=node,
    )


def find(table: tf.Tensor, keys: tf.Tensor, default_value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Vectors of int64 `keys` of any shape, `[keys…, width]`, and whether each is there, bool `[keys…]`.

    default_value: of the table's value type, `[width]` or `[keys…, width]`, for the keys that are not.
    """
    found = load().ps_cluster_table_find(table=table, keys=keys, default_value=default_value)
    return found.values, found.exists


def initial_values(table: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    """What a row of each key starts from, float32 `[keys…, width]`: a function of (seed, table, key) alone."""
    return load().ps_cluster_table_initial_values(table=table, keys=keys)


def accumulate(table: tf.Tensor, keys: tf.Tensor, values_or_deltas: tf.Tensor, exists: tf.Tensor) -> tf.Operation:
    """Adds to the keys that are there and inserts those that are not, if that is what `exists` says of them."""
    return load().ps_cluster_table_accumulate(table=table, keys=keys, values_or_deltas=values_or_deltas, exists=exists)


def clear(table: tf.Tensor) -> tf.Operation:
    """Removes all rows and counts."""
    return load().ps_cluster_table_clear(table=table)


class ExportedRows(NamedTuple):
    """Rows of one class.

    next: int64 scalar, the next call's cursor; END after the last row. row_class: int64 scalar, 0 for ids that are
    only counted, k for rows of tier k - 1. keys: int64 `[n]`. values: `[n, width]` of the value type, zeros behind
    narrower rows. slots: float32 `[n, slots * dim of the class]`. last_steps: int64 `[n]`. frequencies: float64 `[n]`.
    """

    next: tf.Tensor
    row_class: tf.Tensor
    keys: tf.Tensor
    values: tf.Tensor
    slots: tf.Tensor
    last_steps: tf.Tensor
    frequencies: tf.Tensor


def export_block(table: tf.Tensor, cursor: tf.Tensor, max_rows: int, value_type: str = "float32") -> ExportedRows:
    """The next at most `max_rows` rows; `cursor`: int64 scalar, 0 at first, then `next` of the call before."""
    return ExportedRows(
        *load().ps_cluster_table_export_block(table=table, cursor=cursor, max_rows=max_rows, T=tf.as_dtype(value_type))
    )


def save_files(table: tf.Tensor, folder: str, file_name: str, append: bool, block_rows: int) -> tf.Operation:
    """Writes TFRA's files, `file_name-keys` (int64) and `file_name-values`, where the table lives."""
    return load().ps_cluster_table_save_files(
        table=table, folder=folder, file_name=file_name, append=append, block_rows=block_rows
    )


def load_files(table: tf.Tensor, folder: str, file_name: str, whole_folder: bool, block_rows: int) -> tf.Operation:
    """Inserts the rows of TFRA's files; `whole_folder`: of all shards of the variable that `file_name` is one of."""
    return load().ps_cluster_table_load_files(
        table=table, folder=folder, file_name=file_name, whole_folder=whole_folder, block_rows=block_rows
    )


def take_evicted(table: tf.Tensor) -> tf.Tensor:
    """Ids that eviction removed since the last call, int64 `[n]`, oldest first; at most the newest 4,096."""
    return load().ps_cluster_table_take_evicted(table=table)


def stats(table: tf.Tensor) -> tf.Tensor:
    """A JSON object of counts, bytes, longest pauses and most frequent ids: string scalar."""
    return load().ps_cluster_table_stats(table=table)
