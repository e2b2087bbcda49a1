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
from ops.table import END, clear, export_block
from ps_cluster.embedding import cuckoo, native

ENGINES = ("native", "tfra_cuckoo")
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
    engine: str = "native",
    value_type: str = "float32",
    tiers: Sequence[tuple[int, int]] | None = None,
    admission: Admission = Admission(),  # noqa: B008
    eviction: Eviction = Eviction(),  # noqa: B008
) -> RowLayout:
    """`tiers`: pairs of dim and frequency, in place of `dim`."""
    return RowLayout(
        tiers=tuple(Tier(*tier) for tier in tiers) if tiers else (Tier(dim),),
        engine=engine,
        value_type=value_type,
        optimizer=optimizer,
        optimizer_settings=tuple(SETTINGS[optimizer] if settings is None else settings),
        salts=tuple(table_salt(name) for name in tables),
        initial_kinds=(INITIAL_KINDS[kind],) * len(tables),
        initial_scales=(scale,) * len(tables),
        admissions=(admission,) * len(tables),
        evictions=(eviction,) * len(tables),
        seed=seed,
    )


class Group:
    """New, empty tables of one layout; each group's names are its own."""

    def __init__(self, layout: RowLayout):
        self.layout = layout
        self.name = f"test-{next(_numbers)}"
        self.handles = [
            native.create(f"{self.name}/{index}", layout, index, "/CPU:0")
            if layout.engine == "native"
            else cuckoo.create(f"{self.name}/{index}", layout.row_floats, "/CPU:0")
            for index in range(len(layout.salts))
        ]

    def pull(
        self, keys: Sequence, training: bool = True, step: int = 1, hour: int = 0, transport: str = "float32"
    ) -> np.ndarray:
        return pull(self.handles, self.request(keys, step, hour=hour), self.layout, training, transport).numpy()

    def push(
        self,
        keys: Sequence,
        gradients: np.ndarray,
        step: int = 1,
        rate: float = 1.0,
        batch_rows: int = 1,
        rank: int = 0,
        num_workers: int = 1,
        hour: int = 0,
        occurrences: Sequence[int] | None = None,
        transport: str = "float32",
    ) -> None:
        request = self.request(keys, step, rate, batch_rows, rank, hour, occurrences)
        push(self.handles, request, tf.constant(gradients, transport), self.layout, num_workers, self.name)

    def request(
        self,
        keys: Sequence,
        step: int = 1,
        rate: float = 1.0,
        batch_rows: int = 1,
        rank: int = 0,
        hour: int = 0,
        occurrences: Sequence[int] | None = None,
    ) -> tf.Tensor:
        """`keys`: of the only table, or one sequence per table; `occurrences`: of all keys in their order, else 1."""
        per_table = [keys] if len(self.handles) == 1 and not (len(keys) and np.ndim(keys[0])) else keys
        return request_of(per_table, step, rate, batch_rows, rank, hour, occurrences)

    def rows(self, table: int = 0) -> dict[int, np.ndarray]:
        """Every row of a table by key: float32 `[row_floats]` as the cuckoo engine packs it; no tiers."""
        if self.layout.engine == "tfra_cuckoo":
            keys, values = cuckoo.cuckoo_ops.tfra_cuckoo_hash_table_export(self.handles[table], tf.int64, tf.float32)
            return dict(zip(keys.numpy().tolist(), values.numpy()))
        rows: dict[int, np.ndarray] = {}
        cursor = tf.constant(0, tf.int64)
        while cursor != END:
            block = export_block(self.handles[table], cursor, 1000, self.layout.value_type)
            counts = np.stack([block.frequencies, block.last_steps], axis=1).astype(np.uint32)
            packed = np.concatenate([tf.cast(block.values, tf.float32), block.slots, counts.view(np.float32)], axis=1)
            if block.row_class > 0:
                assert not rows.keys() & set(block.keys.numpy().tolist())
                rows.update(zip(block.keys.numpy().tolist(), packed))
            cursor = block.next
        return rows

    def size(self, table: int = 0) -> int:
        return int(tf.raw_ops.LookupTableSizeV2(table_handle=self.handles[table]))

    def clear(self) -> None:
        for handle in self.handles:
            clear(handle)


def request_of(
    per_table: Sequence[Sequence],
    step: int = 1,
    rate: float = 1.0,
    batch_rows: int = 1,
    rank: int = 0,
    hour: int = 0,
    occurrences: Sequence[int] | None = None,
) -> tf.Tensor:
    header = request_header(
        rank, tf.constant(step, tf.int64), tf.constant(batch_rows, tf.int64), tf.constant(rate), hour
    )
    counts = np.array([len(of_table) for of_table in per_table], np.int64)
    flat = np.concatenate([np.asarray(of_table, np.int64) for of_table in per_table])
    often = np.zeros(len(flat) + len(flat) % 2, np.uint32)
    often[: len(flat)] = 1 if occurrences is None else occurrences
    return tf.concat([header, counts, flat, often.view(np.int64)], axis=0)


def keys_of(request: tf.Tensor, num_tables: int) -> list[list[int]]:
    """The keys a request names, per table."""
    return [list(counts) for counts in counts_of(request, num_tables)]


def counts_of(request: tf.Tensor, num_tables: int) -> list[dict[int, int]]:
    """How often each key that a request names occurred, per table."""
    words = np.asarray(request)
    counts, rest = words[HEADER_WORDS : HEADER_WORDS + num_tables], words[HEADER_WORDS + num_tables :]
    total = int(counts.sum())
    keys, often = rest[:total], np.ascontiguousarray(rest[total:]).view(np.uint32)
    assert len(often) == total + total % 2
    assert not often[total:].any()
    pairs = zip(np.split(keys, np.cumsum(counts)[:-1]), np.split(often[:total], np.cumsum(counts)[:-1]))
    tables = [(of_table.tolist(), of_keys.tolist()) for of_table, of_keys in pairs]
    assert all(len(set(of_table)) == len(of_table) for of_table, _ in tables)
    return [dict(zip(*table)) for table in tables]


def frequency(row: np.ndarray) -> int:
    return int(row[-2:-1].view(np.uint32)[0])


def last_step(row: np.ndarray) -> int:
    return int(row[-1:].view(np.uint32)[0])
