"""A worker that saves to real PS: `python -m tests.ps_cluster.checkpoint.save_client WHAT FOLDER PS ME`."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import NoReturn

STEPS_BEFORE, STEPS_MEANWHILE = 3, 6
BATCH, IDS, DIM = 20_000, 60_000, 16


def ids_of(step: int):
    """Ids of a step, int64 `[BATCH]`."""
    import numpy as np

    return np.random.default_rng(step).integers(0, IDS, BATCH)


def groups():
    from ps_cluster.embedding.groups import plan_groups
    from tests.ps_cluster.stores import ADAM, id_of, table_of

    return plan_groups({"user": table_of(DIM)}, [id_of("user", "user")], ADAM, seed=5)


def main() -> None:
    what, folder, ps, me = sys.argv[1:]
    from ps_cluster.quiet import import_tensorflow

    tf = import_tensorflow(gpu=False)
    from ps_cluster.checkpoint.storage import load_file_systems

    load_file_systems(folder)
    addresses = ps.split(",")
    cluster = tf.train.ClusterSpec({"ps": addresses, "worker": {0: me}})
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
    devices = [f"/job:ps/replica:0/task:{index}/device:CPU:0" for index in range(len(addresses))]
    worker = "/job:worker/replica:0/task:0/device:CPU:0"
    {"meanwhile": save_meanwhile, "killed": die_in_a_save, "reshard": reshard, "refill": refill}[what](
        folder, devices, worker
    )
    print("done", flush=True)
    os._exit(0)


def saver_of(folder: str, store, **settings):
    import numpy as np

    from ps_cluster.checkpoint.saver import Saver

    return Saver(folder, store, lambda: {"model/0": np.zeros(2)}, {}, None, keep=9, **settings)


def trained_step(store):
    """A function of (ids, step): one step on the sum of x + x²/2."""
    import tensorflow as tf

    from tests.ps_cluster.stores import train

    signature = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)]
    return tf.function(lambda ids, step: train_in(store, train, ids, step), input_signature=signature, autograph=False)


def train_in(store, train, ids, step) -> None:
    train(store, {"user": ids}, step, batch_rows=BATCH)


def save_meanwhile(folder: str, devices: list[str], worker: str) -> None:
    """Begins a save after some steps and goes on training while it is written; saves the end too."""
    import tensorflow as tf

    from tests.ps_cluster.stores import store_of

    store = store_of(groups(), devices, "meanwhile", worker, deltas=True)
    step = trained_step(store)
    saver = saver_of(folder, store, deltas=1)
    for number in range(1, STEPS_BEFORE + STEPS_MEANWHILE + 1):
        step(tf.constant(ids_of(number)), tf.constant(number, tf.int64))
        if number == STEPS_BEFORE:
            saver.begin(number)
    saver.wait()
    saver.begin(number)
    saver.wait()
    told = [vars(outcome) for outcome in saver.outcomes()]
    print(json.dumps(told), flush=True)


def die_in_a_save(folder: str, devices: list[str], worker: str) -> NoReturn:
    """Saves, trains on, saves again and is killed when all files but the manifest are there."""
    import tensorflow as tf

    from tests.ps_cluster.stores import store_of

    store = store_of(groups(), devices, "killed", worker, deltas=True)
    step = trained_step(store)
    saver = saver_of(folder, store, deltas=1)
    step(tf.constant(ids_of(1)), tf.constant(1, tf.int64))
    saver.begin(1)
    saver.wait()
    step(tf.constant(ids_of(2)), tf.constant(2, tf.int64))
    write = store.write_save

    def write_and_die(*arguments: object) -> NoReturn:
        write(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a killed process goes on")

    store.write_save = write_and_die
    saver.begin(2)
    saver.wait()
    raise AssertionError("a killed process goes on")


def reshard(folder: str, devices: list[str], worker: str) -> None:
    """Trains on 4 PS and saves in full and what changed then; restores on 3, saves; restores that on 1, saves."""
    import tensorflow as tf

    from ps_cluster.checkpoint.finding import newest_checkpoint
    from tests.ps_cluster.stores import store_of

    store = store_of(groups(), devices, "four", worker, deltas=True)
    step = trained_step(store)
    saver = saver_of(os.path.join(folder, "four"), store, deltas=1)
    for number in (1, 2):
        step(tf.constant(ids_of(number)), tf.constant(number, tf.int64))
        saver.begin(number)
        saver.wait()
    source = "four"
    for name, some in (("three", devices[1:]), ("one", devices[:1])):
        store = store_of(groups(), some, name, worker)
        checkpoint = newest_checkpoint(os.path.join(folder, source), some)
        store.restore(checkpoint.levels_of(store.table_names()))
        saver_of(os.path.join(folder, name), store).save(number)
        source = name


def refill(folder: str, devices: list[str], worker: str) -> None:
    """Trains on 3 PS and saves in full and what changed then; restores that into PS 1 of another store alone, saves."""
    import tensorflow as tf

    from ps_cluster.checkpoint.finding import newest_checkpoint
    from ps_cluster.train.ps_marks import mark, unmarked
    from tests.ps_cluster.stores import store_of

    store = store_of(groups(), devices, "whole", worker, deltas=True)
    step = trained_step(store)
    saver = saver_of(os.path.join(folder, "whole"), store, deltas=1)
    for number in (1, 2):
        step(tf.constant(ids_of(number)), tf.constant(number, tf.int64))
        saver.begin(number)
        saver.wait()
    store = store_of(groups(), devices, "part", worker)
    checkpoint = newest_checkpoint(os.path.join(folder, "whole"), devices)
    store.restore(checkpoint.levels_of(store.table_names()), only_ps=[1])
    saver_of(os.path.join(folder, "part"), store).save(number)
    assert unmarked(devices, "part") == [0, 1, 2]
    mark(devices[:2], "part")
    assert unmarked(devices, "part") == [2]
    assert unmarked(devices, "whole") == [0, 1, 2]


if __name__ == "__main__":
    main()
