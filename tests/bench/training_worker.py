"""One worker of `tests.bench.training`: our step and stock TFRA's, in turn, on the same PS and the same batches.

Both sides train the same model: 26 features, a table of dim 16 each, one hidden layer of 64, Adam for rows and weights,
dense gradients all-reduced by Horovod. Rank 0 prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

FEATURES = 26
DIM = 16
RATE = 1e-3
CARDINALITY = 10_000_000
CHECK_STEPS = 4


def main() -> None:
    from ps_cluster.job.membership import from_flags
    from ps_cluster.quiet import import_tensorflow

    parser = argparse.ArgumentParser()
    parser.add_argument("--ps", required=True)
    parser.add_argument("--workers", required=True)
    parser.add_argument("--rendezvous", required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    import_tensorflow(gpu=False)
    from ops.library import load
    from ps_cluster.train.collective import joined

    load()
    membership = from_flags("worker", args.ps, args.workers, args.rendezvous, args.index)
    with joined(membership):
        result = compare(membership, args.batch, args.repeats, args.steps)
    if args.index == 0:
        print(json.dumps(result), flush=True)


def compare(membership, batch: int, repeats: int, steps: int) -> dict:
    import numpy as np
    import tensorflow as tf

    from ps_cluster.train.connect import connect

    devices = connect(membership)
    rank, size = membership.index, len(membership.workers)
    ours, theirs = our_step(devices, rank, size), stock_step(devices, rank, size)
    random = np.random.RandomState(rank)
    labels = tf.constant((random.rand(batch) < 0.3).astype(np.float32))

    # Ids that occur once, here and on the other worker: stock TFRA loses gradients of duplicates, so only here must
    # the two sides agree.
    unique = [
        tf.constant(np.arange(batch * FEATURES).reshape(batch, FEATURES) * size + rank, tf.int64)
        for _ in range(CHECK_STEPS)
    ]
    losses = [[float(step(ids, labels)) for ids in unique] for step in (ours, theirs)]
    worst = max(abs(a - b) for a, b in zip(*losses))

    zipf = [tf.constant((random.zipf(1.2, size=(batch, FEATURES)) % CARDINALITY).astype(np.int64)) for _ in range(20)]
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for repeat in range(repeats + 1):
        for name, step in (("ours", ours), ("theirs", theirs)):
            started = time.perf_counter()
            for index in range(steps):
                step(zipf[(repeat * steps + index) % len(zipf)], labels)
            if repeat:  # the first is the warm-up
                seconds[name].append(time.perf_counter() - started)
    rows = batch * size * steps
    return {
        "ours": rows / statistics.median(seconds["ours"]),
        "theirs": rows / statistics.median(seconds["theirs"]),
        "pairs": [b / a for a, b in zip(seconds["ours"], seconds["theirs"])],
        "worst_loss_difference": worst,
        "losses_move": losses[0][-1] < losses[0][0],
    }


def dense_weights(device: str):
    import tensorflow as tf

    with tf.device(device):
        hidden = tf.random.stateless_normal([FEATURES * DIM, 64], [1, 2]) * 0.05
        head = tf.random.stateless_normal([64, 1], [3, 4]) * 0.1
        return [tf.Variable(hidden), tf.Variable(head), tf.Variable(tf.zeros([64]) + 0.01)]


def loss_sum(weights, inputs, labels):
    import tensorflow as tf

    hidden = tf.nn.relu(inputs @ weights[0] + weights[2])
    logits = tf.squeeze(hidden @ weights[1], 1)
    return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


def our_step(devices, rank: int, size: int):
    import tensorflow as tf
    import tf_keras

    from ps_cluster.embedding.groups import plan_groups
    from ps_cluster.embedding.ps_store import Placement, PsEmbeddingStore
    from ps_cluster.embedding.store import StepInfo
    from ps_cluster.job.schema import IdFeature
    from ps_cluster.job.table_schema import Initializer, SparseAdam, Table
    from ps_cluster.train.collective import sum_inside_step

    names = [f"f{i}" for i in range(FEATURES)]
    tables = {name: Table(dim=DIM, initializer=Initializer(kind="zeros")) for name in names}
    features = [IdFeature(name=name, kind="id", table=name) for name in names]
    groups = plan_groups(tables, features, SparseAdam(name="adam", learning_rate=RATE, epsilon=1e-8), seed=1)
    store = PsEmbeddingStore(groups, Placement(devices.ps, devices.cpu, rank, size, synchronous=True), "bench")
    weights = dense_weights(devices.cpu)
    with tf.device(devices.cpu):
        optimizer = tf_keras.optimizers.legacy.Adam(RATE, epsilon=1e-8)
        step_number = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(ids, labels):
        with tf.device(devices.cpu):
            number = step_number.assign_add(1)
            rows = tf.size(labels, tf.int64)
            columns = dict(zip(names, tf.unstack(ids, num=FEATURES, axis=1)))
        looked_up = store.lookup(columns, StepInfo(number, rows, tf.constant(1.0)), training=True)
        with tf.GradientTape() as tape:
            tape.watch(looked_up.rows)
            vectors = looked_up.vectors(looked_up.rows)
            with tf.device(devices.cpu):
                loss = loss_sum(weights, tf.concat([vectors[name] for name in names], 1), labels)
        row_gradients, *gradients = tape.gradient(loss, [*looked_up.rows, *weights])
        with tf.device(devices.cpu):
            *gradients, loss, all_rows = sum_inside_step([*gradients, loss, tf.cast(rows, tf.float32)])
            optimizer.apply_gradients([(g / all_rows, w) for g, w in zip(gradients, weights)])
        store.apply(looked_up, [row_gradients])
        return loss / all_rows

    return lambda ids, labels: step(ids, labels).numpy()


def stock_step(devices, rank: int, size: int):
    import tensorflow as tf
    import tf_keras
    from tensorflow_recommenders_addons import dynamic_embedding as de

    from ps_cluster.train.collective import sum_inside_step

    optimizer = de.DynamicEmbeddingOptimizer(tf_keras.optimizers.legacy.Adam(RATE, epsilon=1e-8))
    with tf.device(devices.cpu):
        shadows = [
            de.shadow_ops.ShadowVariable(
                de.get_variable(
                    f"stock_{i}",
                    key_dtype=tf.int64,
                    value_dtype=tf.float32,
                    dim=DIM,
                    initializer=tf.zeros([DIM]),
                    devices=list(devices.ps),
                ),
                name=f"shadow_{i}",
            )
            for i in range(FEATURES)
        ]
    weights = dense_weights(devices.cpu)

    @tf.function
    def step(ids, labels):
        with tf.device(devices.cpu):
            rows = tf.constant(float(labels.shape[0] * size))
            with tf.GradientTape() as tape:
                vectors = [
                    de.shadow_ops.embedding_lookup(shadow, column)
                    for shadow, column in zip(shadows, tf.unstack(ids, num=FEATURES, axis=1))
                ]
                loss = loss_sum(weights, tf.concat(vectors, 1), labels) / rows
            variables = [*weights, *shadows]
            gradients = tape.gradient(loss, variables)
            *dense, loss = sum_inside_step([*gradients[: len(weights)], loss])
            optimizer.apply_gradients(list(zip([*dense, *gradients[len(weights) :]], variables)))
            return loss

    return lambda ids, labels: step(ids, labels).numpy()


if __name__ == "__main__":
    main()
