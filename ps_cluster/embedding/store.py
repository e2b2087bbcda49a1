"""What training and evaluation know of embedding storage: the interface, nothing of what lies below."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Union

import tensorflow as tf

from ps_cluster.checkpoint.finding import Level
from ps_cluster.checkpoint.manifest import StoredTable
from ps_cluster.embedding.table_stats import TableStats

Ids = Union[tf.Tensor, tf.RaggedTensor]  # int64 [batch], or [batch, None] for a list


@dataclass(frozen=True)
class StepInfo:
    """What a store must know of the step that a look-up belongs to.

    step: int64 scalar, counted from 1; 0: outside of training. batch_rows: int64 scalar, rows of this worker's batch.
    rate_factor: float32 scalar, the schedule's factor on every table's learning rate. hour: int64 scalar, event time
    of the batch in hours since 1970; 0: not known.
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


class EmbeddingStore(Protocol):
    """Embedding tables by feature. `lookup` and `apply` run inside a `tf.function`, the others eagerly.

    Eagerly, `apply` of several workers would never end: a PS runs all its clients' eager ops on one thread, where the
    first worker's push would wait for the second's.
    """

    def lookup(self, ids: Mapping[str, Ids], info: StepInfo, training: bool) -> Lookup:
        """Fetches the rows of a batch's ids.

        An id without a row gives what it would start from when training, zeros otherwise; the cold value where its
        table's admission has not let it in.
        """

    def apply(self, lookup: Lookup, gradients: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> None:
        """Applies gradients of the batch's *summed* loss with respect to `lookup.rows`."""

    def begin_save(self, folder: str, delta: bool) -> None:
        """Fixes the state of all tables for `write_save`; call it between two steps. `delta`: only what changed since
        the save before, of the tables that can."""

    def write_save(self, folder: str, step: int, base_step: int | None) -> tuple[StoredTable, ...]:
        """Writes what was fixed below `folder`; may run beside training, on a thread of its own."""

    def restore(
        self, levels: Mapping[str, Sequence[Level]], mode: str = "state", only_ps: Collection[int] | None = None
    ) -> dict[str, int]:
        """Puts stored tables into the store's, whatever the number of PS was then; rows that are there already are
        replaced.

        Args:
          levels: by table, `Checkpoint.levels`; tables that are not named stay as they are.
          mode: `state`: all as it was; `warm`: the same for a training whose steps start anew; `embeddings`: like
            `warm`, but the embeddings alone, of rows of whatever width, type and slots.
          only_ps: the tables of the other PS stay as they are. Default: all PS.

        Returns:
          Rows that were put in, by table.

        Raises:
          UserError: a table has rows of another layout.
        """

    def table_names(self) -> list[str]:
        """Names of the tables, in no particular order."""

    def stats(self) -> list[TableStats]:
        """What each table holds and has counted."""

    def take_evicted(self) -> dict[str, list[int]]:
        """Ids that eviction has removed since the last call, by table that is to log them (`eviction.log`)."""
