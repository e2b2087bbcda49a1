"""Stores over small tables, steps on them, and their files as plain dictionaries."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

from ops.shards import read_blocks
from ps_cluster.checkpoint.finding import Level
from ps_cluster.checkpoint.manifest import Shard, StoredTable
from ps_cluster.embedding.groups import TableGroup, plan_groups
from ps_cluster.embedding.ps_store import Placement, PsEmbeddingStore
from ps_cluster.embedding.store import StepInfo
from ps_cluster.job.schema import IdFeature, IdListFeature
from ps_cluster.job.table_schema import Initializer, SparseAdagrad, SparseAdam, SparseSgd, Table

SGD = SparseSgd(name="sgd", learning_rate=0.5)
ADAGRAD = SparseAdagrad(name="adagrad", learning_rate=0.1)
ADAM = SparseAdam(name="adam", learning_rate=0.01)
_numbers = itertools.count()


def id_of(name: str, table: str) -> IdFeature:
    return IdFeature(name=name, kind="id", table=table)


def list_of(name: str, table: str, pooling: str = "mean") -> IdListFeature:
    return IdListFeature(name=name, kind="id_list", table=table, pooling=pooling)


def table_of(dim: int, optimizer=None, scale: float = 0.5, **more) -> Table:
    return Table(dim=dim, optimizer=optimizer, initializer=Initializer(kind="uniform", scale=scale), **more)


# Three groups: `user` with `item` (Adam, dim 4), `genre` (Adagrad, dim 2), `place` (SGD, dim 4).
TABLES = {
    "user": table_of(4),
    "item": table_of(4),
    "genre": table_of(2, ADAGRAD),
    "place": table_of(4, SGD),
}
FEATURES = [
    id_of("user", "user"),
    id_of("shown", "item"),
    list_of("history", "item", "none"),
    list_of("genres", "genre", "mean"),
    id_of("place", "place"),
]


def store_of(
    groups: Sequence[TableGroup],
    devices: Sequence[str] = ("/CPU:0",),
    namespace: str | None = None,
    worker_device: str = "/CPU:0",
    rank: int = 0,
    num_workers: int = 1,
    transport: str = "float32",
    deltas: bool = False,
) -> PsEmbeddingStore:
    """A store of a namespace of its own, unless one is given."""
    placement = Placement(tuple(devices), worker_device, rank, num_workers, synchronous=True)
    namespace = namespace or f"store-{os.getpid()}-{next(_numbers)}"
    return PsEmbeddingStore(groups, placement, namespace, transport, deltas)


def groups_of_all(engine: Literal["native", "tfra_cuckoo"] = "native") -> list[TableGroup]:
    tables = {name: table.model_copy(update={"engine": engine}) for name, table in TABLES.items()}
    return plan_groups(tables, FEATURES, ADAM, seed=5)


def ragged(lists: Sequence[Sequence[int]]) -> tf.RaggedTensor:
    values = np.concatenate([np.zeros(0, np.int64), *(np.asarray(one, np.int64) for one in lists)])
    splits = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return tf.RaggedTensor.from_row_splits(tf.constant(values), tf.constant(splits))


def random_ids(random: np.random.Generator, batch: int, most: int = 40) -> dict:
    """Ids for `FEATURES`."""
    lists = {name: [random.integers(0, most, random.integers(0, 5)).tolist() for _ in range(batch)] for name in "hg"}
    return {
        "user": tf.constant(random.integers(0, most, batch), tf.int64),
        "shown": tf.constant(random.integers(0, most, batch), tf.int64),
        "history": ragged(lists["h"]),
        "genres": ragged(lists["g"]),
        "place": tf.constant(random.integers(0, most, batch), tf.int64),
    }


def info_of(step: int = 1, batch_rows: int = 1, factor: float = 1.0) -> StepInfo:
    return StepInfo(tf.cast(step, tf.int64), tf.cast(batch_rows, tf.int64), tf.cast(factor, tf.float32))


def look_up(store: PsEmbeddingStore, ids: Mapping, training: bool = True, step: int = 1) -> dict:
    looked_up = store.lookup(ids, info_of(step), training)
    return looked_up.vectors(looked_up.rows)


def train(
    store: PsEmbeddingStore,
    ids: Mapping,
    step: int = 1,
    batch_rows: int = 1,
    factor: float = 1.0,
    weights: Mapping = {},
) -> None:
    """A step on the loss of all vectors' sum of w·x + x²/2, w being 1 for a feature without weights."""
    looked_up = store.lookup(ids, info_of(step, batch_rows, factor), training=True)
    with tf.GradientTape() as tape:
        tape.watch(looked_up.rows)
        loss = tf.constant(0.0)
        for name, vectors in looked_up.vectors(looked_up.rows).items():
            vectors = vectors[0] if isinstance(vectors, tuple) else vectors
            loss += tf.reduce_sum(weights.get(name, 1.0) * vectors + vectors * vectors / 2)
    store.apply(looked_up, tape.gradient(loss, looked_up.rows))


def save(store: PsEmbeddingStore, folder: str, step: int = 1, delta: bool = False) -> tuple[StoredTable, ...]:
    """Saves all tables below `folder`."""
    store.begin_save(folder, delta)
    return store.write_save(folder, step, None)


def levels_in(folder: str, tables: Sequence[StoredTable]) -> dict[str, list[Level]]:
    """Saved tables as a store restores them."""
    return {table.name: [Level(folder, table)] for table in tables}


def rows_on_disk(folder: str, tables: Sequence[StoredTable]) -> dict[str, dict[int, bytes]]:
    """Per table, each key's class, counts and row as bytes; no key twice."""
    found: dict[str, dict[int, bytes]] = {}
    for table in tables:
        rows = found.setdefault(table.name, {})
        for shard in table.shards:
            for key, row in shard_on_disk(folder, shard).items():
                assert key not in rows
                rows[key] = row
    return found


def shard_on_disk(folder: str, shard: Shard) -> dict[int, bytes]:
    rows: dict[int, bytes] = {}
    for block in read_blocks(os.path.join(folder, shard.file)):
        for key, meta, row in zip(block.keys.tolist(), block.meta, block.rows):
            assert key not in rows
            rows[key] = bytes([block.row_class]) + meta.tobytes() + row.tobytes()
    return rows
