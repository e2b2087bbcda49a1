"""A worker's side of the store's tests on real PS: `python -m tests.ps_cluster.store_client WHAT FOLDER PS ME RANK`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

import numpy as np

RESHARD_STEPS = 4
PUSH_STEPS = 6
PUSH_KEYS = 60
PUSH_DIM = 4


def gradients_of(rank: int, step: int) -> tuple[np.ndarray, np.ndarray, int]:
    """What worker `rank` pushes: its ids (each once), their gradients, its rows."""
    random = np.random.default_rng([rank, step])
    keys = random.choice(PUSH_KEYS, size=int(random.integers(0, PUSH_KEYS)), replace=False)
    size = 10.0 ** random.integers(-3, 3, size=[len(keys), 1])
    return keys, (random.normal(size=[len(keys), PUSH_DIM]) * size).astype(np.float32), int(random.integers(1, 9))


def main() -> None:
    what, folder, ps, me, rank = sys.argv[1:]
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    wait_for_go("imported")
    addresses = ps.split(",")
    cluster = tf.train.ClusterSpec({"ps": addresses, "worker": {int(rank): me}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=int(rank), protocol="grpc")
    devices = [f"/job:ps/replica:0/task:{index}/device:CPU:0" for index in range(len(addresses))]
    for device in devices:  # TensorFlow connects with the first operation
        with tf.device(device):
            tf.zeros([]).numpy()
    wait_for_go("connected")
    worker = f"/job:worker/replica:0/task:{rank}/device:CPU:0"
    if what == "reshard":
        reshard(folder, devices, worker)
    else:
        push_together(folder, devices, worker, int(rank))
    print("done", flush=True)


def wait_for_go(state: str) -> None:
    print(state, flush=True)
    sys.stdin.readline()


def reshard(folder: str, devices: list[str], worker: str) -> None:
    """Trains on 2 PS, saves; restores on 1, saves; restores that on 3, saves; says what each store counts."""
    from tests.ps_cluster.stores import groups_of_all, levels_in, random_ids, save, store_of, train

    told: dict[str, list] = {}
    random = np.random.default_rng(0)
    source = None
    for name, places in (("two", devices[:2]), ("one", devices[2:]), ("three", devices)):
        store = store_of(groups_of_all(), places, f"reshard-{name}", worker)
        if source is None:
            for step in range(1, RESHARD_STEPS + 1):
                train(store, random_ids(random, 200, most=2000), step, batch_rows=200)
        else:
            store.restore(levels_in(*source))
        path = os.path.join(folder, name)
        source = (path, save(store, path))
        told[name] = [[asdict(table) for table in source[1]], {table.name: table.rows for table in store.stats()}]
    with open(os.path.join(folder, "told.json"), "w", encoding="utf-8") as out:
        json.dump(told, out)


def push_together(folder: str, devices: list[str], worker: str, rank: int) -> None:
    """Trains one table as one of two workers; worker 0 saves it."""
    import tensorflow as tf

    from ps_cluster.embedding.groups import plan_groups
    from ps_cluster.embedding.store import StepInfo
    from tests.ps_cluster.stores import SGD, id_of, save, store_of, table_of

    groups = plan_groups({"user": table_of(PUSH_DIM)}, [id_of("user", "user")], SGD, seed=5)
    store = store_of(groups, devices, "together", worker, rank, num_workers=2)

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([None, PUSH_DIM], tf.float32),
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([], tf.int64),
        ],
    )
    def train_step(keys: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor, rows: tf.Tensor) -> None:
        looked_up = store.lookup({"user": keys}, StepInfo(step, rows, tf.constant(1.0)), training=True)
        with tf.GradientTape() as tape:
            tape.watch(looked_up.rows)
            loss = tf.reduce_sum(looked_up.vectors(looked_up.rows)["user"] * gradients)
        store.apply(looked_up, tape.gradient(loss, looked_up.rows))

    for step in range(1, PUSH_STEPS + 1):
        keys, gradients, rows = gradients_of(rank, step)
        train_step(
            tf.constant(keys, tf.int64),
            tf.constant(gradients),
            tf.constant(step, tf.int64),
            tf.constant(rows, tf.int64),
        )
    if rank == 0:
        # Every worker's last push has ended when this one's has: they end together.
        tables = save(store, folder)
        with open(os.path.join(folder, "told.json"), "w", encoding="utf-8") as out:
            json.dump([asdict(table) for table in tables], out)


if __name__ == "__main__":
    main()
