"""The embedding store whose tables lie on parameter servers (or in the worker itself, as one PS more)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ops import embedding as ops
from ps_cluster.embedding import cuckoo, native
from ps_cluster.embedding.groups import TableGroup
from ps_cluster.embedding.pooling import pool
from ps_cluster.embedding.store import Ids, Lookup, StepInfo
from ps_cluster.embedding.table_files import shards_of
from ps_cluster.embedding.table_stats import TableCounts, TableStats, counts_from, stats_of
from ps_cluster.errors import RunError

# What TFRA calls the two files of a table.
_PARTS = ("keys", "values")


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
    """

    def __init__(self, groups: Sequence[TableGroup], placement: Placement, namespace: str, transport: str = "float32"):
        self._groups = list(groups)
        self._placement = placement
        self._namespace = namespace
        self._transport = transport
        # [groups][PS][tables]
        self._handles = [
            [
                [self._create(group, index, device) for index in range(len(group.tables))]
                for device in placement.ps_devices
            ]
            for group in self._groups
        ]

    def _create(self, group: TableGroup, index: int, device: str) -> tf.Tensor:
        name = f"{self._namespace}/{group.tables[index]}"
        if group.layout.engine == "native":
            return native.create(name, group.layout, index, device)
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
                    ops.push(tables, request, part, group.layout, workers, f"{self._namespace}/{group.name}")

    def save(self, folder: str) -> list[dict]:
        num_ps = len(self._placement.ps_devices)
        shards = []
        for group, handles in zip(self._groups, self._handles):
            for index, table in enumerate(group.tables):
                os.makedirs(os.path.join(folder, "tables", table))
                for ps, device in enumerate(self._placement.ps_devices):
                    shards.append((group, table, handles[ps][index], device, f"ps-{ps:03d}-of-{num_ps:03d}"))

        # Remote eager ops run in the background: as parts of one function, a checksum reads its file only after it has
        # been written, and fetching the checksums waits for all of it.
        @tf.function(autograph=False)
        def write_then_check():
            checksums = []
            for _, table, handle, device, shard in shards:
                at = os.path.join(folder, "tables", table)
                with tf.device(device), tf.control_dependencies([cuckoo.save(handle, at, shard)]):
                    checksums += [ops.file_checksum(os.path.join(at, f"{shard}-{part}")) for part in _PARTS]
            return checksums

        checksums = iter(write_then_check())
        return [
            {
                "file": f"tables/{table}/{shard}-{part}",
                "table": table,
                "part": part,
                "bytes": int(length),
                "crc32c": int(crc),
                "row_floats": group.layout.row_floats,
                "dim": group.layout.dim,
                "optimizer": group.layout.optimizer,
            }
            for group, table, _, _, shard in shards
            for part, (length, crc) in zip(_PARTS, checksums)
        ]

    def restore(self, folder: str, files: Sequence[dict]) -> None:
        num_ps = len(self._placement.ps_devices)
        expected, inserted = 0, []
        for group, handles in zip(self._groups, self._handles):
            for table_index, table in enumerate(group.tables):
                for keys_file, rows_file, rows in shards_of(table, group.layout, folder, files):
                    expected += rows
                    for ps, device in enumerate(self._placement.ps_devices):
                        with tf.device(device):
                            inserted.append(
                                ops.restore_table(
                                    handles[ps][table_index],
                                    keys_file,
                                    rows_file,
                                    group.layout.salts[table_index],
                                    ps,
                                    num_ps,
                                )
                            )
        found = sum(int(number) for number in inserted)
        if found != expected:
            raise RunError(f"{folder}: expected {expected} rows in the tables' files, restored {found}")

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
