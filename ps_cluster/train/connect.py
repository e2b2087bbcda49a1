"""A worker's connection to the PS of its job, and the names of the devices it then uses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from ps_cluster.job.membership import Membership
from ps_cluster.train.notes import leave_note, wait_for_note
from ps_cluster.train.reach import wait_until_reachable


@dataclass(frozen=True)
class Devices:
    """Where things run: tables on `ps` (one name a PS), ids and collectives on `cpu`, the dense model on `compute`."""

    ps: tuple[str, ...]
    cpu: str
    compute: str


def connect(membership: Membership, wait_seconds: float = 300.0, attempt: str = "") -> Devices:
    """Connects this worker to all PS as a client of its own; workers do not know each other through TensorFlow. A
    connection that there was before is given up, with whatever this worker still had to send.

    wait_seconds: limit of each wait. attempt: of several connections one after the other, which one; the same on all
    workers.

    Every worker calls it, inside `joined`. Worker 0 connects first: a PS whose first two clients connect at the same
    moment builds its collective executor twice and leaves one client with the destroyed one, which kills the PS later
    (`EagerServiceImpl::CreateContext` of TensorFlow 2.16).

    Raises:
      RunError: a PS cannot be reached; names it.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[int(os.environ["HOROVOD_LOCAL_RANK"]) % len(gpus)], "GPU")
    if not membership.ps:
        return _devices((_HERE,), _HERE, bool(gpus))
    for index, address in enumerate(membership.ps):
        # TensorFlow waits for a missing PS without end and without a word; so it is asked only when all listen.
        wait_until_reachable(f"PS {index}", address, f"worker {membership.index}", wait_seconds)
    note = f"worker 0 is connected{attempt and f' for {attempt}'}"
    if membership.index > 0:
        wait_for_note(membership, note, wait_seconds)
    cluster = tf.train.ClusterSpec({"ps": list(membership.ps), "worker": {membership.index: membership.address}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=membership.index, protocol="grpc")
    tf.config.list_logical_devices()  # connects now: the call before only said where to
    if membership.index == 0:
        leave_note(membership, note)
    ps = tuple(f"/job:ps/replica:0/task:{index}" for index in range(len(membership.ps)))
    return _devices(ps, f"/job:worker/replica:0/task:{membership.index}", bool(gpus))


_HERE = "/job:localhost/replica:0/task:0"


def _devices(ps: Sequence[str], worker: str, gpu: bool) -> Devices:
    return Devices(
        ps=tuple(f"{task}/device:CPU:0" for task in ps),
        cpu=f"{worker}/device:CPU:0",
        compute=f"{worker}/device:{'GPU' if gpu else 'CPU'}:0",
    )
