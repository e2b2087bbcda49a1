"""One of several processes that add 1 to the same rows of a PS, from several threads:
`python -m tests.ps_cluster.add_client PS ME RANK SIDE TIMES`, SIDE being `ours` or `stock` (TFRA's table, optimiser and
shadow variables). Prints the least and the largest number found, and TIMES is how often each thread adds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

ROWS = 1000
THREADS = 4
DIM = 4
_PS = "/job:ps/replica:0/task:0/device:CPU:0"

Adders = tuple[list[Callable[[], None]], Callable[[], Any]]
"""What each thread does, and what reads all rows."""


def main() -> None:
    ps, me, rank, side, times = sys.argv[1:]
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    wait_for_go("imported")
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": {int(rank): me}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=int(rank), protocol="grpc")
    adders, read = {"ours": _ours, "stock": _stock}[side](f"/job:worker/task:{rank}/device:CPU:0", int(times))
    wait_for_go("connected")
    threads = [threading.Thread(target=adder) for adder in adders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read()  # remote ops have ended
    wait_for_go("added")
    rows = read()
    print(rows.min(), rows.max(), flush=True)


def _ours(_: str, times: int) -> Adders:
    import numpy as np
    import tensorflow as tf

    from ops.embedding import pull, push
    from ps_cluster.embedding import native
    from tests.ops.tables import layout_of, request_of

    layout = layout_of(DIM, "sgd", "zeros")
    handle = native.create("added", layout, 0, _PS)
    with tf.device(_PS):
        request = tf.identity(request_of([np.arange(ROWS)], rate=-1.0))  # so that a gradient is added

    @tf.function(autograph=True)
    def add() -> None:
        with tf.device(_PS):
            for _ in tf.range(times):
                push([handle], request, tf.ones([ROWS, DIM]), layout, 1, "added")

    def read() -> np.ndarray:
        with tf.device(_PS):
            return pull([handle], request, layout, False).numpy()

    add.get_concrete_function()
    return [add] * THREADS, read


def _stock(me: str, times: int) -> Adders:
    import numpy as np
    import tensorflow as tf
    import tf_keras
    from tensorflow_recommenders_addons import dynamic_embedding as de

    with tf.device(me):
        keys = tf.range(ROWS, dtype=tf.int64)
        table = de.get_variable(
            "added", key_dtype=tf.int64, value_dtype=tf.float32, dim=DIM, initializer=tf.zeros([DIM]), devices=[_PS]
        )

    def adder(number: int) -> Callable[[], None]:
        with tf.device(me):
            shadow = de.shadow_ops.ShadowVariable(table, name=f"shadow_{number}")
            optimizer = de.DynamicEmbeddingOptimizer(tf_keras.optimizers.legacy.SGD(1.0))

        @tf.function
        def add() -> None:
            with tf.device(me):
                with tf.GradientTape() as tape:
                    loss = -tf.reduce_sum(de.shadow_ops.embedding_lookup(shadow, keys))
                optimizer.apply_gradients([(tape.gradient(loss, shadow), shadow)])

        def add_all() -> None:
            for _ in range(times):
                add()

        add.get_concrete_function()
        return add_all

    def read() -> np.ndarray:
        with tf.device(me):
            return table.lookup(keys).numpy()

    return [adder(number) for number in range(THREADS)], read


def wait_for_go(state: str) -> None:
    print(state, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
