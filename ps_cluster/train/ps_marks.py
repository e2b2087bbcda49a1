"""Marks on the PS by which a worker sees whether one of them is a new process, whose tables are empty."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def mark(ps_devices: Sequence[str], namespace: str) -> None:
    """Marks all PS; a mark ends with its process."""
    for device in ps_devices:
        with tf.device(device):
            handle = _handle(namespace)
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(1, tf.int64))
    unmarked(ps_devices, namespace)  # remote eager ops run in the background: now they have


def unmarked(ps_devices: Sequence[str], namespace: str) -> list[int]:
    """PS that have not been marked since they were started.

    Raises:
      tf.errors.OpError: a PS cannot be asked.
    """
    asked = []
    for device in ps_devices:
        with tf.device(device):
            asked.append(tf.raw_ops.VarIsInitializedOp(resource=_handle(namespace)))
    return [index for index, marked in enumerate(asked) if not bool(marked.numpy())]


def _handle(namespace: str) -> tf.Tensor:
    return tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=[], shared_name=f"{namespace}/mark")
