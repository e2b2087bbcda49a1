"""The sides of `tests.bench.rankmixer`: one RankMixer block each way, and how two of them are timed and compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from models.block_ops import BlockNorms, composed_block, gelu, layer_norm, mix, token_networks
from models.fused import has_kernel
from ops.library import load_rankmixer
from ops.rankmixer_block import BlockOptions, BlockWeights, rankmixer_block

Side = Callable[[], list[tf.Tensor]]
_EXPANSION = 4
_OPTIONS = BlockOptions()


@dataclass
class Times:
    """Of one side; each call's in milliseconds."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def repeats(self) -> int:
        return len(self.cpu)

    @property
    def cpu_ms(self) -> float:
        return statistics.median(self.cpu)

    @property
    def wall_ms(self) -> float:
        return statistics.median(self.wall)

    @property
    def p99_ms(self) -> float:
        return float(np.quantile(self.wall, 0.99))


class Block:
    """Blocks one behind the other on random tokens `[batch, tokens, dim]`; with `backward`, also the gradients of the
    tokens and of all weights, for a random upstream gradient."""

    def __init__(
        self, batch: int, tokens: int, dim: int, *, layers: int = 1, backward: bool = True, dtype: str = "float32"
    ) -> None:
        rng = np.random.default_rng(0)
        hidden = _EXPANSION * dim

        def normal(shape: Sequence[int], deviation: float = 1.0) -> tf.Tensor:
            return tf.cast(tf.constant(rng.standard_normal(shape, np.float32) * np.float32(deviation)), dtype)

        self.flops = layers * (12 if backward else 4) * _EXPANSION * tokens * dim**2 * batch
        self._backward = backward
        self._tokens, self._upstream = normal([batch, tokens, dim]), normal([batch, tokens, dim])
        self._weights = [
            BlockWeights(
                gamma1=normal([dim]),
                beta1=normal([dim], 0.1),
                w1=normal([tokens, dim, hidden], dim**-0.5),
                b1=normal([tokens, hidden], 0.1),
                w2=normal([tokens, hidden, dim], hidden**-0.5),
                b2=normal([tokens, dim], 0.1),
                gamma2=normal([dim]),
                beta2=normal([dim], 0.1),
            )
            for _ in range(layers)
        ]
        self._dtype = dtype

    @property
    def has_fused(self) -> bool:
        load_rankmixer()
        return has_kernel("PsClusterRankmixerBlock", "CPU", self._dtype)

    def fused(self) -> Side:
        return self._side(
            lambda tokens, weights: rankmixer_block(tokens, weights, _OPTIONS, keep=self._backward), xla=False
        )

    def peer(self, name: str) -> Side:
        """`einsum`, `matmul` or `xla`."""
        return self._side(_einsum if name == "einsum" else _matmul, xla=name == "xla")

    def _side(self, layer: Callable[[tf.Tensor, BlockWeights], tf.Tensor], *, xla: bool) -> Side:
        def run(tokens: tf.Tensor, upstream: tf.Tensor, weights: list[BlockWeights]) -> list[tf.Tensor]:
            sources = [tokens, *tf.nest.flatten(weights)]
            with tf.GradientTape() as tape:
                if self._backward:
                    tape.watch(sources)
                result = tokens
                for one in weights:
                    result = layer(result, one)
            return [result, *(tape.gradient(result, sources, upstream) if self._backward else [])]

        traced = tf.function(run, autograph=False, jit_compile=xla)
        return lambda: traced(self._tokens, self._upstream, self._weights)


def _matmul(tokens: tf.Tensor, weights: BlockWeights) -> tf.Tensor:
    norms = BlockNorms(weights.gamma1, weights.beta1, weights.gamma2, weights.beta2)
    return composed_block(tokens, norms, _OPTIONS, lambda mixed: token_networks(mixed, weights, _OPTIONS))


def _einsum(tokens: tf.Tensor, weights: BlockWeights) -> tf.Tensor:
    mixed = layer_norm(mix(tokens) + tokens, weights.gamma1, weights.beta1, _OPTIONS.epsilon)
    hidden = gelu(tf.einsum("btd,tdf->btf", mixed, weights.w1) + weights.b1, "gelu")
    output = tf.einsum("btf,tfd->btd", hidden, weights.w2) + weights.b2
    return layer_norm(output + mixed, weights.gamma2, weights.beta2, _OPTIONS.epsilon)


def large_matmul(dtype: str, size: int = 2048) -> tuple[Side, float]:
    """A product of square matrices, and its operations."""
    matrix = tf.cast(tf.random.stateless_normal([size, size], [1, 2]), dtype)
    product = tf.function(lambda one, other: [tf.matmul(one, other)], autograph=False)
    return lambda: product(matrix, matrix), 2.0 * size**3


def interleaved(sides: Mapping[str, Side], seconds: float, least: int = 3) -> dict[str, Times]:
    """The sides in turn, again and again: CPU time of the whole process and wall time of each call.

    On a CPU a call returns when its results are there.
    """
    times = {name: Times() for name in sides}
    for side in sides.values():
        side()
    deadline = time.monotonic() + seconds
    repeats = 0
    while repeats < least or time.monotonic() < deadline:
        repeats += 1
        for name, side in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            side()
            times[name].cpu.append(1e3 * (time.process_time() - cpu))
            times[name].wall.append(1e3 * (time.perf_counter() - wall))
    return times


def compared(ours: Sequence[tf.Tensor], theirs: Sequence[tf.Tensor], tolerance: float = 1e-4) -> tuple[bool, float]:
    """Whether outputs and gradients are the same, and the largest difference of any over its largest value."""
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        one, other = (tf.cast(values, tf.float32).numpy() for values in (one, other))
        worst = max(worst, float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)))
    return worst <= tolerance, worst
