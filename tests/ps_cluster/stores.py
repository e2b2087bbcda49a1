"""Stores over small tables, steps on them, and their files as plain dictionaries."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import tensorflow as tf

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
) -> PsEmbeddingStore:
    """A store of a namespace of its own, unless one is given."""
    placement = Placement(tuple(devices), worker_device, rank, num_workers, synchronous=True)
    return PsEmbeddingStore(groups, placement, namespace or f"store-{os.getpid()}-{next(_numbers)}", transport)


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
    return StepInfo(tf.constant(step, tf.int64), tf.constant(batch_rows, tf.int64), tf.constant(factor, tf.float32))


def look_up(store: PsEmbeddingStore, ids: Mapping, training: bool = True) -> dict:
    looked_up = store.lookup(ids, info_of(), training)
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


def rows_on_disk(folder: str, files: Sequence[dict]) -> dict[str, dict[int, bytes]]:
    """Per table, each key's row as bytes; no key twice."""
    tables: dict[str, dict[int, bytes]] = {}
    for entry in files:
        if entry["part"] == "keys":
            rows = tables.setdefault(entry["table"], {})
            for key, row in shard_on_disk(folder, entry).items():
                assert key not in rows
                rows[key] = row
    return tables


def shard_on_disk(folder: str, entry: dict) -> dict[int, bytes]:
    path = os.path.join(folder, entry["file"])
    keys = np.fromfile(path, "<i8")
    rows = np.fromfile(path[: -len("keys")] + "values", "<f4").reshape(len(keys), entry["row_floats"])
    assert len(set(keys.tolist())) == len(keys)
    return {key: row.tobytes() for key, row in zip(keys.tolist(), rows)}
