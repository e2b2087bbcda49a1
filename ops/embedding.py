"""The ops that move embeddings between workers and PS, as typed Python functions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from ops.library import load

HEADER_WORDS = 5
INITIAL_KINDS = {"zeros": 0, "uniform": 1, "normal": 2}


def table_salt(name: str) -> int:
    """The number that tells tables apart in hashes: the same in every run and on every machine (int64)."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@dataclass(frozen=True)
class Tier:
    """Rows of one width; an id moves up to a tier when it has occurred `min_frequency` times."""

    dim: int
    min_frequency: int = 0


@dataclass(frozen=True)
class Admission:
    """Which ids of a table get a row; fields that the kind has no use for keep their defaults.

    kind: `none`, `exact`, `bloom` or `probability`. threshold: occurrences from which on an id has a row (exact,
    bloom). capacity: ids over all PS for which `error` holds (bloom). probability: of each occurrence (probability).
    cold_value: every position of the vector of an id without a row.
    """

    kind: str = "none"
    threshold: int = 1
    capacity: int = 0
    error: float = 0.0
    probability: float = 1.0
    cold_value: float = 0.0


@dataclass(frozen=True)
class Eviction:
    """When a row of a table goes; 0: the rule is not set. max_bytes: on each PS. log: tell which ids went."""

    max_age_steps: int = 0
    max_age_hours: int = 0
    half_life_steps: float = 0.0
    min_frequency: float = 0.0
    max_bytes: int = 0
    log: bool = False


@dataclass(frozen=True)
class RowLayout:
    """What tables of one group share (tiers, engine, value type, optimiser, seed), and what each has of its own.

    tiers: the narrowest first; one where all rows have one width. engine: `native` or `tfra_cuckoo`. value_type: of
    stored embeddings, `float32`, `float16` or `bfloat16`; slots are float32. optimizer_settings: in the order of
    `ops/cc/table/row_optimizer.h`. The tuples from `salts` to `evictions` have one entry per table; `initial_kinds`
    are values of INITIAL_KINDS.
    """

    tiers: tuple[Tier, ...]
    engine: str
    value_type: str
    optimizer: str
    optimizer_settings: tuple[float, ...]
    salts: tuple[int, ...]
    initial_kinds: tuple[int, ...]
    initial_scales: tuple[float, ...]
    admissions: tuple[Admission, ...]
    evictions: tuple[Eviction, ...]
    seed: int

    @property
    def dim(self) -> int:
        """Width of the widest tier: of what pull returns and push takes."""
        return max(tier.dim for tier in self.tiers)

    @property
    def slots(self) -> int:
        """Vectors that the optimiser keeps beside an embedding."""
        return slots_of(self.optimizer, self.optimizer_settings)

    @property
    def row_floats(self) -> int:
        """float32 values of a row of the `tfra_cuckoo` engine, `[dim * (1 + slots) + 2]`: embedding, slots, and as the
        bits of uint32 the frequency and the step of the last update (0: never written)."""
        return self.dim * (1 + self.slots) + 2

    def _attributes(self) -> dict:
        return {
            "dim": self.dim,
            "optimizer": self.optimizer,
            "optimizer_settings": list(self.optimizer_settings),
            "initial_kinds": list(self.initial_kinds),
            "initial_scales": list(self.initial_scales),
            "salts": list(self.salts),
            "seed": self.seed,
        }


def slots_of(optimizer: str, settings: Sequence[float]) -> int:
    """Vectors that an optimiser keeps beside an embedding; `settings` as in `RowLayout`."""
    if optimizer == "rmsprop":
        return 2 if settings[1] > 0 else 1  # its momentum
    return {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2, "adamw": 2, "ftrl": 2}[optimizer]


def request_header(
    rank: int, step: tf.Tensor, batch_rows: tf.Tensor, learning_rate: tf.Tensor, hour: tf.Tensor | int = 0
) -> tf.Tensor:
    """Packs what a PS needs to know of a step: int64 `[5]`.

    Args:
      rank: rank of this worker.
      step: int64 scalar, counted from 1.
      batch_rows: int64 scalar, rows in this worker's batch; may be 0.
      learning_rate: float32 scalar.
      hour: int64 scalar, event time of the batch in hours since 1970; 0: not known.
    """
    rate_bits = tf.cast(tf.bitcast(learning_rate, tf.int32), tf.int64)
    return tf.stack([tf.constant(rank, tf.int64), step, batch_rows, rate_bits, tf.cast(hour, tf.int64)])


def route_ids(
    header: tf.Tensor,
    ids: Sequence[tf.Tensor],
    table_of_feature: Sequence[int],
    salts: Sequence[int],
    num_ps: int,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """De-duplicates and counts the ids of a group's features and cuts them by owning PS.

    Args:
      header: int64 `[5]` of `request_header`.
      ids: per feature, int64 `[ids]`.
      table_of_feature: per feature, the index of its table in the group.
      salts: per table, its `table_salt`.
      num_ps: number of PS.

    Returns:
      requests: per PS, int64 `[5 + tables + keys + (keys + 1) // 2]`: the last words hold how often each key occurs.
      positions: int32 `[ids of all features]`: each id's row among the rows of PS 0, 1, … one after the other.
    """
    requests, positions = load().ps_cluster_route_ids(
        header=header,
        ids=list(ids),
        num_ps=num_ps,
        table_of_feature=list(table_of_feature),
        salts=list(salts),
    )
    return list(requests), positions


def pull(
    tables: Sequence[tf.Tensor], request: tf.Tensor, layout: RowLayout, training: bool, transport: str = "float32"
) -> tf.Tensor:
    """Reads embeddings on a PS: `[keys, dim]` of type `transport`, in the order of the request.

    An id without a row gives what it would start from when `training`, and zeros (with admission, the table's cold
    value) otherwise. transport: `float32`, `float16` or `bfloat16`.
    """
    return load().ps_cluster_pull(
        tables=list(tables), request=request, training=training, T=tf.as_dtype(transport), **layout._attributes()
    )


def push(
    tables: Sequence[tf.Tensor],
    request: tf.Tensor,
    gradients: tf.Tensor,
    layout: RowLayout,
    num_workers: int,
    shared_name: str,
) -> tf.Operation:
    """Applies gradients of the summed loss on a PS; waits for all `num_workers` of the step.

    gradients: `[keys, dim]`, float32, float16 or bfloat16; they are summed in float32.
    """
    return load().ps_cluster_push(
        tables=list(tables),
        request=request,
        gradients=gradients,
        num_workers=num_workers,
        shared_name=shared_name,
        **layout._attributes(),
    )
