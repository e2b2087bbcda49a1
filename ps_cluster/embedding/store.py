"""What training and evaluation know of embedding storage: the interface, nothing of what lies below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Union

import tensorflow as tf

Ids = Union[tf.Tensor, tf.RaggedTensor]  # int64 [batch], or [batch, None] for a list


@dataclass(frozen=True)
class StepInfo:
    """What a store must know of the step that a look-up belongs to.

    step: int64 scalar, counted from 1. batch_rows: int64 scalar, rows of this worker's batch. rate_factor: float32
    scalar, the schedule's factor on every table's learning rate. hour: int64 scalar, event time of the batch in hours
    since 1970; 0: not known.
    """

    step: tf.Tensor
    batch_rows: tf.Tensor
    rate_factor: tf.Tensor
    hour: tf.Tensor | int = 0


@dataclass(frozen=True)
class Lookup:
    """The rows that one batch needs, each once, and the way from rows to features.

    rows: per group, float32 `[unique ids, dim]`: what a gradient tape watches.
    vectors: from rows to the model's inputs by feature name; differentiable.
    requests: per group and PS, as the push needs them.
    counts: per group, int32 `[PS]`: rows that came from each PS.
    """

    rows: list[tf.Tensor]
    vectors: Callable[[Sequence[tf.Tensor]], dict]
    requests: list[list[tf.Tensor]]
    counts: list[tf.Tensor]


@dataclass(frozen=True)
class TableStats:
    """Rows of a table over all PS, and the bytes of their keys and values (without the engine's overhead).

    rows_by_tier: rows of each of the table's tiers, the narrowest first; empty where the rows have one width.
    """

    name: str
    rows: int
    payload_bytes: int
    rows_by_tier: tuple[int, ...] = ()


class EmbeddingStore(Protocol):
    """Embedding tables by feature. `lookup` and `apply` run inside a `tf.function`, the others eagerly.

    Eagerly, `apply` of several workers would never end: a PS runs all its clients' eager ops on one thread, where the
    first worker's push would wait for the second's.
    """

    def lookup(self, ids: Mapping[str, Ids], info: StepInfo, training: bool) -> Lookup:
        """Fetches the rows of a batch's ids; unseen ids give initial values when training, zeros otherwise."""

    def apply(self, lookup: Lookup, gradients: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> None:
        """Applies gradients of the batch's *summed* loss with respect to `lookup.rows`."""

    def save(self, folder: str) -> list[dict]:
        """Writes all tables below `folder`; returns one manifest entry per file."""

    def restore(self, folder: str, files: Sequence[dict]) -> None:
        """Reads back what `save` wrote, whatever the number of PS was then; rows that are there already stay.

        Raises:
          UserError: a table of the job is missing, or has rows of another layout.
        """

    def stats(self) -> list[TableStats]:
        """Rows and bytes per table."""
