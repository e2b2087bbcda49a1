"""The embedding store whose tables lie on parameter servers (or in the worker itself, as one PS more)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ops import embedding as ops
from ps_cluster.checkpoint.finding import Level
from ps_cluster.checkpoint.manifest import StoredTable
from ps_cluster.embedding import cuckoo, native
from ps_cluster.embedding.groups import TableGroup
from ps_cluster.embedding.pooling import pool
from ps_cluster.embedding.store import Ids, Lookup, StepInfo
from ps_cluster.embedding.table_saves import PlacedTable, TableSaves
from ps_cluster.embedding.table_stats import TableCounts, TableStats, counts_from, stats_of


@dataclass(frozen=True)
class Placement:
    """Devices of the tables, one for each PS, and this worker's place among the workers that push to them."""

    ps_devices: tuple[str, ...]
    worker_device: str
    rank: int
    num_workers: int
    synchronous: bool


class PsEmbeddingStore:
    """An `EmbeddingStore` of native or TFRA tables. A second store of the same namespace finds the same tables.

    transport: type in which embeddings and gradients travel between worker and PS: `float32`, `float16` or `bfloat16`.
    deltas: whether saves may be deltas; native tables then remember removed ids.
    attempt: name of this attempt at a training, the same for all stores that push together.
    """

    def __init__(
        self,
        groups: Sequence[TableGroup],
        placement: Placement,
        namespace: str,
        transport: str = "float32",
        deltas: bool = False,
        attempt: str = "",
    ):
        self._groups = list(groups)
        self._placement = placement
        self._namespace = namespace
        self._transport = transport
        self._deltas = deltas
        self.connect(attempt)

    def connect(self, attempt: str) -> None:
        """Makes the handles of the tables, and tables where there are none yet. A step that was traced before cannot be
        used any more."""
        placement = self._placement
        self._attempt = attempt
        # [groups][PS][tables]
        self._handles = [
            [
                [self._create(group, index, device) for index in range(len(group.tables))]
                for device in placement.ps_devices
            ]
            for group in self._groups
        ]
        placed = [
            PlacedTable(table, group.layout, index, tuple(of_ps[index] for of_ps in handles))
            for group, handles in zip(self._groups, self._handles)
            for index, table in enumerate(group.tables)
        ]
        self._saves = TableSaves(placed, placement.ps_devices)

    def _create(self, group: TableGroup, index: int, device: str) -> tf.Tensor:
        name = f"{self._namespace}/{group.tables[index]}"
        if group.layout.engine == "native":
            return native.create(name, group.layout, index, device, self._deltas)
        return cuckoo.create(name, group.layout.row_floats, device)

    def lookup(self, ids: Mapping[str, Ids], info: StepInfo, training: bool) -> Lookup:
        rows, requests, counts, positions = [], [], [], []
        for group, handles in zip(self._groups, self._handles):
            with tf.device(self._placement.worker_device):
                header = ops.request_header(
                    self._placement.rank,
                    info.step,
                    info.batch_rows,
                    info.rate_factor * group.learning_rate,
                    info.hour,
                )
                group_requests, group_positions = ops.route_ids(
                    header,
                    [_values(ids[use.name]) for use in group.features],
                    [use.table for use in group.features],
                    group.layout.salts,
                    len(handles),
                )
            pulled = []
            for device, tables, request in zip(self._placement.ps_devices, handles, group_requests):
                with tf.device(device):
                    pulled.append(ops.pull(tables, request, group.layout, training, self._transport))
            with tf.device(self._placement.worker_device):
                counts.append(tf.stack([tf.shape(part)[0] for part in pulled]))
                rows.append(tf.cast(tf.concat(pulled, axis=0), tf.float32))
            requests.append(group_requests)
            positions.append(group_positions)

        def vectors(rows: Sequence[tf.Tensor]) -> dict:
            inputs: dict = {}
            with tf.device(self._placement.worker_device):
                for group, group_rows, where in zip(self._groups, rows, positions):
                    sizes = [tf.shape(_values(ids[use.name]))[0] for use in group.features]
                    # One gather for all features of the group, and so one scatter on the way back.
                    parts = tf.split(tf.gather(group_rows, where), sizes, num=len(sizes))
                    for use, part in zip(group.features, parts):
                        feature_ids = ids[use.name]
                        part = tf.ensure_shape(part, [None, group.layout.dim])
                        if use.pooling is None:
                            inputs[use.name] = part
                        else:
                            inputs[use.name] = pool(part, feature_ids.row_splits, use.pooling)
            return inputs

        return Lookup(rows, vectors, requests, counts)

    def apply(self, lookup: Lookup, gradients: Sequence[tf.Tensor | tf.IndexedSlices | None]) -> None:
        workers = self._placement.num_workers if self._placement.synchronous else 1
        for index, (group, gradient) in enumerate(zip(self._groups, gradients)):
            if gradient is None:
                continue
            counts = lookup.counts[index]
            with tf.device(self._placement.worker_device):
                if isinstance(gradient, tf.IndexedSlices):
                    gradient = tf.math.unsorted_segment_sum(
                        gradient.values, gradient.indices, tf.shape(lookup.rows[index])[0]
                    )
                gradient = tf.cast(gradient, tf.as_dtype(self._transport))
                parts = tf.split(gradient, counts, num=len(self._placement.ps_devices))
            for device, tables, request, part in zip(
                self._placement.ps_devices, self._handles[index], lookup.requests[index], parts
            ):
                with tf.device(device):
                    name = f"{self._namespace}/{group.name}/{self._attempt}"
                    ops.push(tables, request, part, group.layout, workers, name)

    def begin_save(self, folder: str, delta: bool) -> None:
        self._saves.begin(folder, delta)

    def write_save(self, folder: str, step: int, base_step: int | None) -> tuple[StoredTable, ...]:
        return self._saves.write(folder, step, base_step)

    def restore(
        self, levels: Mapping[str, Sequence[Level]], mode: str = "state", only_ps: Collection[int] | None = None
    ) -> dict[str, int]:
        return self._saves.restore(levels, mode, only_ps)

    def table_names(self) -> list[str]:
        return [table for group in self._groups for table in group.tables]

    def stats(self) -> list[TableStats]:
        # All are asked before the first answer is waited for.
        asked = []
        for group, handles in zip(self._groups, self._handles):
            engine = native.stats if group.layout.engine == "native" else cuckoo.size
            for index, table in enumerate(group.tables):
                told = []
                for ps, device in enumerate(self._placement.ps_devices):
                    with tf.device(device):
                        told.append(engine(handles[ps][index]))
                asked.append((group, table, told))
        result = []
        for group, table, told in asked:
            if group.layout.engine == "native":
                per_ps = [counts_from(one.numpy()) for one in told]
            else:
                row_bytes = 8 + 4 * group.layout.row_floats
                per_ps = [(_plain_counts(int(rows), row_bytes, group.layout.dim), []) for rows in told]
            result.append(stats_of(table, group.layout.engine == "native", per_ps))
        return result

    def take_evicted(self) -> dict[str, list[int]]:
        evicted = {}
        for group, handles in zip(self._groups, self._handles):
            for index, table in enumerate(group.tables):
                if group.layout.engine == "native" and group.layout.evictions[index].log:
                    ids: list[int] = []
                    for ps, device in enumerate(self._placement.ps_devices):
                        with tf.device(device):
                            ids += native.take_evicted(handles[ps][index]).numpy().tolist()
                    evicted[table] = ids
        return evicted


def _plain_counts(rows: int, row_bytes: int, dim: int) -> TableCounts:
    """Of a TFRA table, which tells its size only."""
    return TableCounts(rows, rows * row_bytes, rows * row_bytes, embedding_values=rows * dim, rows_by_tier=(rows,))


def _values(ids: Ids) -> tf.Tensor:
    return ids.flat_values if isinstance(ids, tf.RaggedTensor) else ids
