"""Tables without rows for a training that begins, or goes on, on PS that may have served an attempt before it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ps_cluster.embedding import cuckoo, native
from ps_cluster.embedding.groups import TableGroup
from ps_cluster.train.collective import gathered
from ps_cluster.train.connect import Devices


def empty_tables(groups: Sequence[TableGroup], namespace: str, devices: Devices, deltas: bool) -> None:
    """Removes the job's tables from all PS, with whatever they hold; who makes their handles next makes them anew.

    One worker alone calls it, while no other has handles. What an attempt that has died still sends finds no table, or
    keeps to itself the one that it had. `namespace`, `deltas`: as of `PsEmbeddingStore`.

    Raises:
      tf.errors.OpError: a PS is gone, or holds a table of that name that was made for another job.
    """
    if not groups:
        return

    @tf.function(autograph=False)
    def remove() -> tf.Tensor:
        removed = []
        for group in groups:
            for index, table in enumerate(group.tables):
                for device in devices.ps:
                    name = f"{namespace}/{table}"
                    # A handle is made of an op that makes the table, so that there is one to remove in any case.
                    if group.layout.engine == "native":
                        handle = native.create(name, group.layout, index, device, deltas)
                    else:
                        handle = cuckoo.create(name, group.layout.row_floats, device)
                    with (
                        tf.device(device),
                        tf.control_dependencies([tf.raw_ops.DestroyResourceOp(resource=handle)]),
                    ):
                        removed.append(tf.constant(0))
        return tf.add_n(removed)

    remove().numpy()  # a function, and its result fetched: remote eager ops run in the background


def agreed_attempt(rank: int) -> str:
    """A name of this attempt at the training, the same on all workers and unlike that of any other; every worker calls
    it, and none goes on before worker 0 has called it.

    In synchronous training a PS keeps a step's gradients until those of all workers are there. By this name those of an
    attempt that has died are never taken for a part of a step of another one.
    """
    mine = [time.time_ns()] if rank == 0 else []
    return f"{int(gathered(np.array(mine, np.int64))[0]):x}"
