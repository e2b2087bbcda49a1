"""A worker's connection to the PS of its job, and the names of the devices it then uses."""

from __future__ import annotations

import os
from dataclasses import dataclass

import tensorflow as tf

from ps_cluster.job.membership import Membership
from ps_cluster.train.reach import wait_until_reachable


@dataclass(frozen=True)
class Devices:
    """Where things run: tables on `ps` (one name a PS), ids and collectives on `cpu`, the dense model on `compute`."""

    ps: tuple[str, ...]
    cpu: str
    compute: str


def connect(membership: Membership) -> Devices:
    """Connects this worker to all PS as a client of its own; workers do not know each other through TensorFlow.

    Raises:
      RunError: a PS cannot be reached; names it.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[int(os.environ["HOROVOD_LOCAL_RANK"]) % len(gpus)], "GPU")
    if not membership.ps:
        host = "/job:localhost/replica:0/task:0"
        ps: tuple[str, ...] = (f"{host}/device:CPU:0",)
    else:
        # TensorFlow waits for a missing PS without end and without a word; so it is asked only when all listen.
        for index, address in enumerate(membership.ps):
            wait_until_reachable(f"PS {index}", address, f"worker {membership.index}")
        cluster = tf.train.ClusterSpec({"ps": list(membership.ps), "worker": {membership.index: membership.address}})
        tf.config.experimental_connect_to_cluster(
            cluster, job_name="worker", task_index=membership.index, protocol="grpc"
        )
        host = f"/job:worker/replica:0/task:{membership.index}"
        ps = tuple(f"/job:ps/replica:0/task:{index}/device:CPU:0" for index in range(len(membership.ps)))
    return Devices(ps, f"{host}/device:CPU:0", f"{host}/device:{'GPU' if gpus else 'CPU'}:0")
