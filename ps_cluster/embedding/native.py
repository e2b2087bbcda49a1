"""Storage engine: the native table of `ops`."""

from __future__ import annotations

import tensorflow as tf

from ops import table as ops
from ops.embedding import RowLayout


def create(name: str, layout: RowLayout, table: int, device: str) -> tf.Tensor:
    """Returns the handle of the group's table `table` as `name` on `device`; creates it when it is not there yet."""
    with tf.device(device):
        return ops.create(name, ops.config_of(layout, table))


def stats(handle: tf.Tensor) -> tf.Tensor:
    """JSON for `table_stats.counts_from`: string scalar."""
    return ops.stats(handle)


def take_evicted(handle: tf.Tensor) -> tf.Tensor:
    """Ids that eviction removed since the last call: int64 `[n]`."""
    return ops.take_evicted(handle)
