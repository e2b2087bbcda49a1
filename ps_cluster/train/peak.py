"""What the devices of a job could do at most: the rate of a large product, measured before training."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

from ps_cluster.train.collective import total

_SECONDS = 0.25
_SIZE = {"CPU": 1024, "GPU": 8192}


def measured_peak(device: str, dtype: str) -> float:
    """Floating-point operations per second of all workers together; every worker calls it.

    The workers measure at the same time, each with the threads it trains with: those that share a machine share its
    cores in this as in training, and their rates add up to the machine's. A product of square matrices of `dtype`,
    1,024 wide on a CPU and 8,192 on a GPU, again and again for a quarter of a second.
    """
    size = _SIZE["GPU" if "GPU" in device else "CPU"]
    with tf.device(device):
        matrix = tf.cast(tf.random.stateless_uniform([size, size], [1, 2]), dtype)

        @tf.function(autograph=False)
        def product() -> tf.Tensor:
            # Its last number: the host waits for the product, and not for its way from the device.
            return tf.matmul(matrix, matrix)[-1, -1]

        product().numpy()
        total(np.ones(1, np.int64))  # the others are ready too
        started, products = time.monotonic(), 0
        while time.monotonic() - started < _SECONDS:
            product().numpy()
            products += 1
        rate = products * 2.0 * size**3 / (time.monotonic() - started)
    return float(total(np.array([rate], np.float64))[0])
