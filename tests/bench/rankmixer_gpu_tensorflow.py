"""A training step of one block in TensorFlow on a GPU: the fused op against the same from TensorFlow's own ops.

Nothing here has been run on a GPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from tests.bench.reporting import Result

SIZES = {"batch": 2048, "tokens": 16, "dim": 512, "expansion": 4}
STEPS, ROUNDS = 20, 5


class NotComparableError(Exception):
    """Why there is nothing to compare, in one line."""


def cases() -> dict[str, Callable[[bool], Result]]:
    """The comparisons that can be made here; raises NotComparableError."""
    try:
        from ps_cluster.quiet import import_tensorflow

        tf = import_tensorflow(gpu=True)
    except ImportError as error:
        raise NotComparableError(f"TensorFlow cannot be imported ({error})") from error
    from ops.library import RANKMIXER_GPU_PATH, LibraryError, load_rankmixer

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise NotComparableError("TensorFlow finds no GPU (`make env GPU=1` installs the one that does)")
    tf.config.experimental.set_memory_growth(gpus[0], True)  # the other cases need memory beside it
    try:
        load_rankmixer()
    except LibraryError as error:
        raise NotComparableError(str(error)) from error
    if not os.path.exists(RANKMIXER_GPU_PATH):
        raise NotComparableError("the GPU kernels of the op are not built (`make env GPU=1` builds them)")
    return {
        f"step_{dtype}_vs_{other}": _case(tf, dtype, other)
        for dtype in ("float32", "bfloat16", "float16")
        for other in ("composed", "xla")
    }


def _case(tf: Any, dtype: str, other: str) -> Callable[[bool], Result]:
    def run(full: bool) -> Result:
        from models.rankmixer import gelu, layer_norm, mix
        from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block

        batch, tokens, dim = SIZES["batch"] * (2 if full else 1), SIZES["tokens"], SIZES["dim"]
        hidden = SIZES["expansion"] * dim
        draw = tf.random.Generator.from_seed(1)

        def normal(*shape: int, scale: float = 1.0) -> Any:
            return tf.cast(draw.normal(shape) * scale, dtype)

        with tf.device("/GPU:0"):
            x, dy = normal(batch, tokens, dim), normal(batch, tokens, dim)
            weights = BlockWeights(
                gamma1=1 + normal(dim, scale=0.1),
                beta1=normal(dim, scale=0.1),
                w1=normal(tokens, dim, hidden, scale=dim**-0.5),
                b1=normal(tokens, hidden, scale=0.1),
                w2=normal(tokens, hidden, dim, scale=hidden**-0.5),
                b2=normal(tokens, dim, scale=0.1),
                gamma2=1 + normal(dim, scale=0.1),
                beta2=normal(dim, scale=0.1),
            )

        def composed(x: Any, w: BlockWeights) -> Any:
            mixed = tf.transpose(layer_norm(mix(x) + x, w.gamma1, w.beta1, 1e-6), [1, 0, 2])
            units = gelu(tf.matmul(mixed, w.w1) + w.b1[:, tf.newaxis, :], "exact")
            output = tf.matmul(units, w.w2) + w.b2[:, tf.newaxis, :]
            return tf.transpose(layer_norm(output + mixed, w.gamma2, w.beta2, 1e-6), [1, 0, 2])

        def step_of(block: Callable[[Any, BlockWeights], Any], compiled: bool) -> Callable[[], Any]:
            @tf.function(jit_compile=compiled)
            def step(x: Any, dy: Any, weights: BlockWeights) -> Any:
                with tf.GradientTape() as tape:
                    tape.watch([x, *weights])
                    y = block(x, weights)
                return y, tape.gradient(y, [x, *weights], output_gradients=dy)

            def call() -> Any:
                with tf.device("/GPU:0"):
                    return step(x, dy, weights)

            return call

        ours = step_of(lambda x, w: rankmixer_block(x, w, BlockOptions()), False)
        theirs = step_of(composed, other == "xla")
        found, wanted = (tf.nest.flatten(call()) for call in (ours, theirs))
        bound = 2e-2 if dtype == "float32" else 1e-1  # of the root mean square; both sides round
        right = all(
            float(tf.norm(tf.cast(a - b, tf.float32))) <= bound * float(tf.norm(tf.cast(b, tf.float32)))
            for a, b in zip(found, wanted)
        )
        best = [float("inf"), float("inf")]
        for _ in range(ROUNDS):
            for side, call in enumerate((ours, theirs)):
                best[side] = min(best[side], _seconds(call))
        sizes = f"batch {batch}, {tokens} tokens of {dim}, hidden {hidden}, {dtype}"
        compared = f"forward and backward of one block in TensorFlow, {sizes}: the fused op against {other}"
        name = f"step_{dtype}_vs_{other}"
        return Result(name, best[0] * 1e3, best[1] * 1e3, "ms", best[1] / best[0], right, compared)

    return run


def _seconds(call: Callable[[], Any]) -> float:
    """Of one of many steps; reading a result waits for all that was given before."""
    call()[0][0, 0, 0].numpy()
    start = time.perf_counter()
    for _ in range(STEPS):
        last = call()
    last[0][0, 0, 0].numpy()
    return (time.perf_counter() - start) / STEPS
