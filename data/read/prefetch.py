"""Batches ready ahead of their use in the trainer's process."""

from __future__ import annotations

import tensorflow as tf

from data.read.read_spec import ReadSpec

BUDGET_BYTES = 512 * 2**20
"""What tf.data may hold ready when it finds out by itself how much is needed."""


def prefetched(dataset: tf.data.Dataset, spec: ReadSpec) -> tf.data.Dataset:
    """`dataset` with `spec.prefetch_batches` batches ready; 0: as many as it turns out to need, within
    `BUDGET_BYTES`."""
    if spec.prefetch_batches:
        return dataset.prefetch(spec.prefetch_batches)
    options = tf.data.Options()
    options.autotune.ram_budget = BUDGET_BYTES
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
