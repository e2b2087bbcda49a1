"""A worker's connection to the PS of its job, and the names of the devices it then uses."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from ps_cluster.errors import RunError
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

    After a cut of the network a PS may still hold the connection that an earlier process had at this worker's address,
    and finds only with its next message, when TCP tries again, that nobody knows of it any more. So a number is sent
    to each PS and back, and where that fails the connection is made anew: later it would end the attempt.

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
    devices = _devices(
        [f"/job:ps/replica:0/task:{index}" for index in range(len(membership.ps))],
        f"/job:worker/replica:0/task:{membership.index}",
        bool(gpus),
    )
    deadline = time.monotonic() + wait_seconds
    told = membership.index > 0
    while True:
        try:
            tf.config.experimental_connect_to_cluster(
                cluster, job_name="worker", task_index=membership.index, protocol="grpc"
            )
            tf.config.list_logical_devices()  # connects now: the call before only said where to
            if not told:
                leave_note(membership, note)
                told = True
            _try_out(devices)
            return devices
        except _BROKEN as error:
            if time.monotonic() > deadline:
                raise RunError(
                    f"worker {membership.index}: waited {wait_seconds:g} s for connections to all PS that hold: "
                    f"{error.message}"
                ) from error
            why = (error.message.splitlines() or [type(error).__name__])[0].strip()
            print(f"worker {membership.index}: connects to the PS again: {why}", file=sys.stderr, flush=True)
        time.sleep(_AGAIN_SECONDS)


def _try_out(devices: Devices) -> None:
    """Sends a number to each PS, which has to ask this worker for it, and takes it back."""

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.float32)])
    def there_and_back(number: tf.Tensor) -> tf.Tensor:
        with tf.device(devices.cpu):
            mine = number + 1.0  # what is computed here is not sent with the call
        theirs = []
        for device in devices.ps:
            with tf.device(device):
                theirs.append(mine + 1.0)
        with tf.device(devices.cpu):
            return tf.add_n(theirs)

    with tf.device(devices.cpu):
        there_and_back.get_concrete_function()(tf.constant(0.0)).numpy()


_BROKEN = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
_HERE = "/job:localhost/replica:0/task:0"
_AGAIN_SECONDS = 0.5


def _devices(ps: Sequence[str], worker: str, gpu: bool) -> Devices:
    return Devices(
        ps=tuple(f"{task}/device:CPU:0" for task in ps),
        cpu=f"{worker}/device:CPU:0",
        compute=f"{worker}/device:{'GPU' if gpu else 'CPU'}:0",
    )
