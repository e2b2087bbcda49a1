"""Storage engine: the native table of `ops`."""

from __future__ import annotations

import tensorflow as tf

from ops import table as ops
from ops.embedding import RowLayout


def create(name: str, layout: RowLayout, table: int, device: str, track_removed: bool = False) -> tf.Tensor:
    """Returns the handle of the group's table `table` as `name` on `device`; creates it when it is not there yet.
    `track_removed`: so that deltas of it can be saved."""
    with tf.device(device):
        return ops.create(name, ops.config_of(layout, table, track_removed))


def stats(handle: tf.Tensor) -> tf.Tensor:
    """JSON for `table_stats.counts_from`: string scalar."""
    return ops.stats(handle)


def take_evicted(handle: tf.Tensor) -> tf.Tensor:
    """Ids that eviction removed since the last call: int64 `[n]`."""
    return ops.take_evicted(handle)
