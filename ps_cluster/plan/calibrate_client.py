"""A worker's steps against a PS, measured on both: `python -m ps_cluster.plan.calibrate_client PS ME PID`.

Its steps look ids up and push gradients through the store, as a worker does, with few and many ids and with narrow and
wide rows; so CPU seconds of a call, of an id and of a number are told apart, those of the PS and those of the worker.
Prints a JSON object of the constants.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

_IDS = 300_000
_FEW, _MANY = 256, 16_384
_NARROW, _WIDE = 8, 64
_ROUNDS = {_FEW: 150, _MANY: 16}
_WARM = 3
_FILL = 65_536


def main() -> None:
    """See above."""
    ps, me, pid = sys.argv[1:]
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    import ps_cluster.roles.worker  # noqa: F401  a worker has all this in memory

    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": {0: me}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
    server = psutil.Process(int(pid))
    base = server.memory_info().rss
    costs, trip, saved = {}, 0.0, 0.0
    connected = own = 0
    for dim in (_NARROW, _WIDE):
        store, step = _step(tf, dim)
        # Rows that are there already, as most are in a long run.
        step(np.arange(_FEW))
        connected = connected or server.memory_info().rss
        own = own or psutil.Process().memory_info().rss
        for start in range(0, _IDS, _FILL):
            step(np.arange(start, min(start + _FILL, _IDS)))
        random = np.random.default_rng(1)
        for ids in (_FEW, _MANY):
            drawn = [random.choice(_IDS, ids, replace=False) for _ in range(_ROUNDS[ids] + _WARM)]
            costs[dim, ids] = _costs(server, step, drawn)
        trip = trip or costs[dim, _FEW][2]
        saved = _saved(store)
    found = {
        "ps_client_bytes": float(max(connected - base, 0)),
        "worker_base_bytes": float(own),
        "round_trip_seconds": trip,
        "checkpoint_bytes_per_second": saved,
    }
    for number, who in enumerate(("ps", "worker")):
        few, many, wide = (costs[key][number] for key in ((_NARROW, _FEW), (_NARROW, _MANY), (_WIDE, _MANY)))
        of_float = max(wide - many, 0.0) / (_MANY * (_WIDE - _NARROW))
        of_id = max((many - few) / (_MANY - _FEW) - _NARROW * of_float, 0.0)
        found |= {
            f"{who}_float_seconds": of_float,
            f"{who}_id_seconds": of_id,
            f"{who}_call_seconds": max(few - _FEW * (of_id + _NARROW * of_float), 0.0),
        }
    print(json.dumps(found), flush=True)


def _step(tf: Any, dim: int) -> tuple[Any, Callable[[np.ndarray], None]]:
    """The store of one table of this width, and a training step on it."""
    from ps_cluster.embedding.groups import plan_groups
    from ps_cluster.embedding.ps_store import Placement, PsEmbeddingStore
    from ps_cluster.embedding.store import StepInfo
    from ps_cluster.job.schema import IdFeature
    from ps_cluster.job.table_schema import SparseAdam, Table

    features = [IdFeature(name=f"id_{dim}", kind="id", dim=dim)]
    adam = SparseAdam(name="adam", learning_rate=0.01)
    groups = plan_groups({f"id_{dim}": Table(dim=dim)}, features, adam, 1)
    there, here = ("/job:ps/replica:0/task:0/device:CPU:0",), "/job:worker/replica:0/task:0/device:CPU:0"
    store = PsEmbeddingStore(groups, Placement(there, here, 0, 1, synchronous=True), f"calibrate-{dim}")

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)])
    def once(ids, number):
        found = store.lookup(
            {f"id_{dim}": ids}, StepInfo(number, tf.size(ids, tf.int64), tf.constant(1.0)), training=True
        )
        with tf.device(here):
            gradients = [1e-3 * part for part in found.rows]
        store.apply(found, gradients)
        with tf.device(here):
            return tf.add_n([tf.reduce_sum(part) for part in gradients])

    numbers = iter(range(1, 10**9))

    def step(ids: np.ndarray) -> None:
        once(tf.constant(ids, tf.int64), tf.constant(next(numbers), tf.int64)).numpy()

    return store, step


def _costs(server: psutil.Process, step: Callable, drawn: list[np.ndarray]) -> tuple[float, float, float]:
    """CPU seconds of the PS and of this process, and seconds, of a step."""
    for ids in drawn[:_WARM]:
        step(ids)
    before, own, started = sum(server.cpu_times()[:2]), time.process_time(), time.monotonic()
    for ids in drawn[_WARM:]:
        step(ids)
    rounds = len(drawn) - _WARM
    spent = sum(server.cpu_times()[:2]) - before
    return spent / rounds, (time.process_time() - own) / rounds, (time.monotonic() - started) / rounds


def _saved(store: Any) -> float:
    """Bytes per second of a checkpoint."""
    with tempfile.TemporaryDirectory(prefix="ps-cluster-calibrate-") as folder:
        place = os.path.join(folder, "saved")
        started = time.monotonic()
        store.begin_save(place, False)
        written = sum(shard.bytes for table in store.write_save(place, 1, None) for shard in table.shards)
        return written / (time.monotonic() - started)


if __name__ == "__main__":
    main()
