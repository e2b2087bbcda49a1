"""One of several processes that add to the same rows of a PS: `python -m tests.ps_cluster.add_client PS ME RANK`."""

from __future__ import annotations

import sys
import threading

ROWS = 1000
THREADS = 4
PUSHES = 100
DIM = 4


def main() -> None:
    ps, me, rank = sys.argv[1:]
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    import numpy as np

    from ops.embedding import pull, push
    from ps_cluster.embedding import native
    from tests.ops.tables import layout_of, request_of

    wait_for_go("imported")
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": {int(rank): me}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=int(rank), protocol="grpc")
    device = "/job:ps/replica:0/task:0/device:CPU:0"
    layout = layout_of(DIM, "sgd", "zeros")
    handle = native.create("added", layout, 0, device)
    with tf.device(device):
        request = tf.identity(request_of([np.arange(ROWS)], rate=-1.0))  # so that a gradient is added

        @tf.function(autograph=True)
        def add() -> None:
            for _ in tf.range(PUSHES):
                push([handle], request, tf.ones([ROWS, DIM]), layout, 1, "added")

        add.get_concrete_function()
        wait_for_go("connected")
        threads = [threading.Thread(target=add) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tf.reduce_sum(pull([handle], request, layout, False)).numpy()  # remote ops have ended
        wait_for_go("added")
        rows = pull([handle], request, layout, False).numpy()
    print(rows.min(), rows.max(), flush=True)


def wait_for_go(state: str) -> None:
    print(state, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
