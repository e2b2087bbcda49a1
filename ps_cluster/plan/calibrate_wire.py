"""A client that measures a PS over the wire: `python -m ps_cluster.plan.calibrate_wire PS ME PID`.

Prints CPU seconds of the PS for a byte and for a call, seconds of a round trip, bytes per second of a checkpoint, and
the PS' resident bytes with a client.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

import numpy as np
import psutil

_FLOATS = 2**21
_ROUNDS = 12
_CALLS = 60
_ROWS = 200_000
_DIM = 32


def main() -> None:
    """See above."""
    ps, me, pid = sys.argv[1:]
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    from ops import embedding as ops
    from ops import shards
    from ops import table as native

    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": {0: me}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
    server = psutil.Process(int(pid))
    there = "/job:ps/replica:0/task:0/device:CPU:0"
    here = "/job:worker/replica:0/task:0/device:CPU:0"

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None])])
    def back_and_forth(values):
        with tf.device(there):
            values = values + 1.0
        with tf.device(here):
            return tf.reduce_sum(values[:1])

    def measured(size: int, rounds: int) -> tuple[float, float]:
        """CPU seconds of the PS, and seconds, of a round."""
        with tf.device(here):
            values = tf.zeros([size])
        for _ in range(3):
            back_and_forth(values).numpy()
        before, started = sum(server.cpu_times()[:2]), time.monotonic()
        for _ in range(rounds):
            back_and_forth(values).numpy()
        return (sum(server.cpu_times()[:2]) - before) / rounds, (time.monotonic() - started) / rounds

    call, trip = measured(1, _CALLS)
    connected = server.memory_info().rss  # before large messages leave their buffers behind
    large, _ = measured(_FLOATS, _ROUNDS)
    layout = ops.RowLayout(
        tiers=(ops.Tier(_DIM),), engine="native", value_type="float32", optimizer="adam",
        optimizer_settings=(0.9, 0.999, 1e-7, 0.0), salts=(1,), initial_kinds=(0,), initial_scales=(0.0,),
        admissions=(ops.Admission(),), evictions=(ops.Eviction(),), seed=1,
    )  # fmt: skip
    with tf.device(there):
        handle = native.create("calibrate", native.config_of(layout, 0))
    header = ops.request_header(0, tf.constant(1, tf.int64), tf.constant(1, tf.int64), tf.constant(0.01))
    (asked,), _ = ops.route_ids(header, [tf.constant(np.arange(_ROWS))], [0], layout.salts, 1)
    with tf.device(there):
        ops.push([handle], asked, tf.zeros([_ROWS, _DIM]), layout, 1, "calibrate")
        rows = json.loads(native.stats(handle).numpy())["rows"]
    assert rows == _ROWS
    with tempfile.TemporaryDirectory(prefix="ps-cluster-calibrate-") as folder, tf.device(there):
        started = time.monotonic()
        written = _save(shards, handle, os.path.join(folder, "table"))
        speed = written / (time.monotonic() - started)
    byte = max(large - call, 0.0) / (2 * 4.0 * _FLOATS)
    print(byte, call, trip, speed, connected, flush=True)


def _save(shards, handle, path: str) -> float:
    shards.begin_save(handle, False)
    told = shards.write_table(handle, path, "{}").numpy()  # waits: the op runs on the PS
    return float(told[4])


if __name__ == "__main__":
    main()
