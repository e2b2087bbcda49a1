"""When parts of a step were done: clock readings inside its graph, which nothing waits for."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def time_mark(after: Sequence[tf.Tensor], cpu: str, compute: str | None = None) -> tf.Tensor:
    """Seconds since 1970 at which all of `after` were there: float64 scalar; inside a `tf.function`.

    cpu: device of the clock. compute: device that made `after`, where it is another one: its ops count as done when
    they have been handed to it, so that a number made behind them has to come to the CPU first.
    """
    if compute is not None and compute != cpu:
        with tf.device(compute), tf.control_dependencies(after):
            behind = tf.zeros([]) + tf.cast(tf.size(after[0]), tf.float32)
        with tf.device(cpu):
            after = [tf.identity(behind)]
    with tf.device(cpu), tf.control_dependencies(after):
        now = tf.timestamp()
    # Stateful ops of a function run one after the other; a clock would so make what is parallel wait for it.
    now.graph.experimental_acd_manager.run_independently(now.op)
    return now
