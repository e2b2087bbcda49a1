"""Tables of this process, ours and TFRA's, filled with the same rows, and how both are used at their best.

A row of width W holds W float32 values. For updates by Adam it is `[embedding | m | v]`, an embedding of W // 3 values;
TFRA's table holds the same packed row, which is the fewest calls that TFRA's Python ops allow: find, compute, insert.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_recommenders_addons.dynamic_embedding.python.ops.cuckoo_hashtable_ops import cuckoo_ops

from ops import table as native
from ops.embedding import INITIAL_KINDS, Admission, Eviction, RowLayout, Tier, push, request_header, route_ids

BETA_1, BETA_2, EPSILON, RATE = 0.9, 0.999, 1e-7, 1e-3
FILL_ROWS = 262_144
_SETTINGS: dict[str, tuple[float, ...]] = {
    "none": (),
    "sgd": (0.0,),
    "adam": (BETA_1, BETA_2, EPSILON, 0.0),
}
_names = (f"bench-{number}" for number in itertools.count())


def values_of(keys: np.ndarray, width: int) -> np.ndarray:
    """What the row of a key holds: float32 `[keys, width]`, between 0 and 1."""
    return ((keys[:, np.newaxis] * 7919 + np.arange(width)) % 1009 / 1009).astype(np.float32)


def fill(insert: Any, rows: int, width: int) -> None:
    """Inserts keys 0 to `rows` - 1, block by block."""
    for start in range(0, rows, FILL_ROWS):
        keys = np.arange(start, min(start + FILL_ROWS, rows))
        insert(tf.constant(keys), tf.constant(values_of(keys, width)))


class Theirs:
    """TFRA's cuckoo table through TFRA's own ops."""

    def __init__(self, width: int, capacity: int):
        self.width = width
        self.handle = cuckoo_ops.tfra_cuckoo_hash_table_of_tensors(
            shared_name=next(_names), key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[width],
            init_size=capacity,
        )  # fmt: skip
        self._zeros = tf.zeros([width])

    def insert(self, keys: tf.Tensor, rows: tf.Tensor) -> None:
        cuckoo_ops.tfra_cuckoo_hash_table_insert(self.handle, keys, rows)

    def find(self, keys: tf.Tensor) -> tf.Tensor:
        return cuckoo_ops.tfra_cuckoo_hash_table_find(self.handle, keys, self._zeros)

    def adam(self) -> Any:
        """`update(keys, gradients, step)`: find the packed rows, one step of Adam, insert them again."""
        dim, rest = self.width // 3, self.width - self.width // 3 * 3

        @tf.function(autograph=False)
        def update(keys: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> None:
            rows = cuckoo_ops.tfra_cuckoo_hash_table_find(self.handle, keys, self._zeros)
            embedding, m, v, *more = tf.split(rows, [dim, dim, dim, *([rest] if rest else [])], axis=1)
            t = tf.cast(step, tf.float64)
            rate = tf.cast(RATE * tf.sqrt(1 - tf.pow(tf.constant(BETA_2, tf.float64), t)) /
                           (1 - tf.pow(tf.constant(BETA_1, tf.float64), t)), tf.float32)  # fmt: skip
            m = m + (gradients - m) * (1 - BETA_1)
            v = v + (gradients * gradients - v) * (1 - BETA_2)
            embedding = embedding - rate * m / (tf.sqrt(v) + EPSILON)
            cuckoo_ops.tfra_cuckoo_hash_table_insert(self.handle, keys, tf.concat([embedding, m, v, *more], axis=1))

        return update


class Ours:
    """The native table: plain, or with Adam's slots behind each embedding."""

    def __init__(
        self,
        width: int,
        optimizer: str = "none",
        admission: Admission | None = None,
        eviction: Eviction | None = None,
        track_removed: bool = False,
    ):
        self.width = width
        self.name = next(_names)
        self.layout = RowLayout(
            tiers=(Tier(width),),
            engine="native",
            value_type="float32",
            optimizer=optimizer,
            optimizer_settings=_SETTINGS[optimizer],
            salts=(1,),
            initial_kinds=(INITIAL_KINDS["zeros"],),
            initial_scales=(0.0,),
            admissions=(admission or Admission(),),
            evictions=(eviction or Eviction(),),
            seed=1,
        )
        self.handle = native.create(self.name, native.config_of(self.layout, 0, track_removed))
        self._zeros = tf.zeros([width])

    def insert(self, keys: tf.Tensor, rows: tf.Tensor) -> None:
        tf.raw_ops.LookupTableInsertV2(table_handle=self.handle, keys=keys, values=rows)

    def find(self, keys: tf.Tensor) -> tf.Tensor:
        return native.find(self.handle, keys, self._zeros)[0]

    def request(self, keys: np.ndarray, step: int) -> tf.Tensor:
        """As a worker sends it; the keys come out in an order of the hash's."""
        header = request_header(0, tf.constant(step, tf.int64), tf.constant(1, tf.int64), tf.constant(RATE))
        (request,), _ = route_ids(header, [tf.constant(keys)], [0], self.layout.salts, 1)
        return request

    def push(self, request: tf.Tensor, gradients: tf.Tensor) -> None:
        push([self.handle], request, gradients, self.layout, 1, self.name)

    def size(self) -> int:
        """Rows."""
        return int(tf.raw_ops.LookupTableSizeV2(table_handle=self.handle))

    def stats(self) -> dict:
        return json.loads(native.stats(self.handle).numpy())
