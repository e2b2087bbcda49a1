"""Tables of this process and requests to them, as the tests of the ops need them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ops.embedding import (
    HEADER_WORDS,
    INITIAL_KINDS,
    Admission,
    Eviction,
    RowLayout,
    Tier,
    pull,
    push,
    request_header,
    table_salt,
)
from ps_cluster.embedding import cuckoo

# As `ops/cc/table/row_optimizer.h` orders them; the last one is the norm that gradients are clipped to.
SETTINGS = {
    "sgd": (0.0,),
    "momentum": (0.9, 0.0, 0.0),
    "adagrad": (0.1, 1e-7, 1.0, 1.0, 0.0),
    "adam": (0.9, 0.999, 1e-7, 0.0),
    "adamw": (0.9, 0.999, 1e-7, 0.01, 0.0),
    "rmsprop": (0.9, 0.0, 1e-7, 0.0),
    "ftrl": (-0.5, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0),
}
_numbers = itertools.count()


def layout_of(
    dim: int,
    optimizer: str = "sgd",
    kind: str = "uniform",
    scale: float = 0.05,
    tables: Sequence[str] = ("table",),
    seed: int = 7,
    settings: Sequence[float] | None = None,
) -> RowLayout:
    return RowLayout(
        tiers=(Tier(dim),),
        engine="tfra_cuckoo",
        value_type="float32",
        optimizer=optimizer,
        optimizer_settings=tuple(SETTINGS[optimizer] if settings is None else settings),
        salts=tuple(table_salt(name) for name in tables),
        initial_kinds=(INITIAL_KINDS[kind],) * len(tables),
        initial_scales=(scale,) * len(tables),
        admissions=(Admission(),) * len(tables),
        evictions=(Eviction(),) * len(tables),
        seed=seed,
    )


class Group:
    """New, empty tables of one layout; each group's names are its own."""

    def __init__(self, layout: RowLayout):
        self.layout = layout
        self.name = f"test-{next(_numbers)}"
        self.handles = [
            cuckoo.create(f"{self.name}/{index}", layout.row_floats, "/CPU:0") for index in range(len(layout.salts))
        ]

    def pull(self, keys: Sequence, training: bool = True) -> np.ndarray:
        return pull(self.handles, self.request(keys), self.layout, training).numpy()

    def push(
        self,
        keys: Sequence,
        gradients: np.ndarray,
        step: int = 1,
        rate: float = 1.0,
        batch_rows: int = 1,
        rank: int = 0,
        num_workers: int = 1,
    ) -> None:
        request = self.request(keys, step, rate, batch_rows, rank)
        push(self.handles, request, tf.constant(gradients, tf.float32), self.layout, num_workers, self.name)

    def request(
        self, keys: Sequence, step: int = 1, rate: float = 1.0, batch_rows: int = 1, rank: int = 0
    ) -> tf.Tensor:
        """`keys`: of the only table, or one sequence per table."""
        per_table = [keys] if len(self.handles) == 1 and not (len(keys) and np.ndim(keys[0])) else keys
        header = request_header(rank, tf.constant(step, tf.int64), tf.constant(batch_rows, tf.int64), tf.constant(rate))
        counts = np.array([len(of_table) for of_table in per_table], np.int64)
        flat = np.concatenate([np.asarray(of_table, np.int64) for of_table in per_table])
        return tf.concat([header, counts, flat], axis=0)

    def rows(self, table: int = 0) -> dict[int, np.ndarray]:
        """Every row of a table by key: float32 `[row_floats]`."""
        keys, values = cuckoo.cuckoo_ops.tfra_cuckoo_hash_table_export(self.handles[table], tf.int64, tf.float32)
        return dict(zip(keys.numpy().tolist(), values.numpy()))

    def size(self, table: int = 0) -> int:
        return int(cuckoo.size(self.handles[table]))


def keys_of(request: tf.Tensor, num_tables: int) -> list[list[int]]:
    """The keys a request names, per table."""
    words = np.asarray(request)
    counts, keys = words[HEADER_WORDS : HEADER_WORDS + num_tables], words[HEADER_WORDS + num_tables :]
    assert counts.sum() == len(keys)
    return [part.tolist() for part in np.split(keys, np.cumsum(counts)[:-1])]


def last_step(row: np.ndarray) -> int:
    return int(row[-1:].view(np.int32)[0])
