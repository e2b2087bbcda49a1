"""From a list's row vectors to what the model sees of it."""

from __future__ import annotations

import tensorflow as tf


def pool(vectors: tf.Tensor, row_splits: tf.Tensor, pooling: str) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
    """Pools the vectors of each list.

    Args:
      vectors: float32 `[ids, dim]`, list after list.
      row_splits: int64 `[batch + 1]`.
      pooling: `mean`, `sum`, `sqrtn` (sum over the root of the length), or `none`.

    Returns:
      float32 `[batch, dim]`, zeros for an empty list; with `none`: float32 `[batch, length, dim]`, padded with zeros
      to the longest list of the batch, and a bool mask `[batch, length]`.
    """
    if pooling == "none":
        sequence = tf.RaggedTensor.from_row_splits(vectors, row_splits, validate=False).to_tensor()
        return sequence, tf.sequence_mask(row_splits[1:] - row_splits[:-1], tf.shape(sequence)[1])
    lengths = row_splits[1:] - row_splits[:-1]
    batch = tf.shape(lengths)[0]
    total = tf.math.unsorted_segment_sum(vectors, tf.repeat(tf.range(batch), lengths), batch)
    if pooling == "sum":
        return total
    count = tf.cast(tf.maximum(lengths, 1), tf.float32)[:, tf.newaxis]
    return total / (tf.sqrt(count) if pooling == "sqrtn" else count)
