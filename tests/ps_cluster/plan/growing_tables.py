"""Tables that grow in a process of their own: `python -m tests.ps_cluster.plan.growing_tables 8 100000 64 adam`.

That is tables, rows of each, width, optimiser (`adam` or `sgd`). Prints resident bytes over those when the tables were
empty, and the bytes that the tables count.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf

from ops import embedding as ops
from ops import table as native
from tests.bench.memory import resident_bytes

BATCH = 4_000
SETTINGS = {"adam": (0.9, 0.999, 1e-7, 0.0), "sgd": (0.0,)}


def main() -> None:
    tables, rows, dim = map(int, sys.argv[1:4])
    layout = ops.RowLayout(
        tiers=(ops.Tier(dim, 0),), engine="native", value_type="float32", optimizer=sys.argv[4],
        optimizer_settings=SETTINGS[sys.argv[4]], salts=(7,), initial_kinds=(0,), initial_scales=(0.0,),
        admissions=(ops.Admission(),), evictions=(ops.Eviction(),), seed=1,
    )  # fmt: skip
    handles = [native.create(f"t{number}", native.config_of(layout, 0)) for number in range(tables + 1)]
    random = np.random.default_rng(1)

    def push(number: int, keys: np.ndarray, step: int) -> None:
        header = ops.request_header(0, tf.constant(step, tf.int64), tf.constant(1, tf.int64), tf.constant(0.1))
        requests, _ = ops.route_ids(header, [tf.constant(keys)], [0], layout.salts, 1)
        ops.push([handles[number]], requests[0], tf.zeros([len(keys), dim]), layout, 1, f"t{number}")

    # What a step itself takes is there before: the last table has all the rows that it will ever have.
    keys = random.integers(-(2**62), 2**62, BATCH)
    for step in range(1, 20):
        push(tables, keys, step)
    empty = resident_bytes()
    for step in range(20, 20 + rows // BATCH):
        for number in range(tables):
            push(number, random.integers(-(2**62), 2**62, BATCH), step)
    counted = sum(json.loads(native.stats(one).numpy())["bytes"] for one in handles[:tables])
    print(json.dumps({"resident": resident_bytes() - empty, "counted": counted}))


if __name__ == "__main__":
    main()
