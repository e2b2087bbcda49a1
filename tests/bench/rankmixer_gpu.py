"""The fused RankMixer block on a GPU: right answers first, then its speed against the card's peak and TensorFlow's.

`make bench-gpu` is all that is needed: it compiles the CUDA library with nvcc and runs this. `forward_DTYPE` and
`step_DTYPE` (forward and backward) compare achieved TFLOP/s of the matrix products with the card's peak, so `ratio`
is the model FLOPs utilisation; times are those of CUDA events around many runs. tf32 is float32 with operands rounded
to TF32. Where TensorFlow has a GPU and its GPU kernels of the block are built (`make env GPU=1`),
`step_DTYPE_vs_composed` and `step_DTYPE_vs_xla` compare a training step of one block with the same of TensorFlow's
own ops, without and with XLA.

Exit code 2 with one line where there is no GPU or no nvcc; 1 where answers are wrong.

None of this has been run on a GPU. What was: the same kernels under the emulator of the tests, the comparison with
NumPy and the whole of a case with it; not the driver calls, the peaks that are measured, and the comparisons with
TensorFlow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ops.rankmixer_gpu import ACTIVATIONS, NORMS, BlockAddresses, BlockProblem, CudaBlock, Kept, Scratch
from ps_cluster.setup.cuda import CudaError, build, find_nvcc
from tests.bench.rankmixer_gpu_device import Gpu, NoGpuError
from tests.bench.rankmixer_gpu_peak import Peak, peak
from tests.bench.reporting import Result, run_cases
from tests.ops.rankmixer_cuda import reference
from tests.ops.rankmixer_cuda.cases import BOUNDS, NUMPY, error, random_block

MODES = {"float32": ("float32", False), "tf32": ("float32", True), "bfloat16": ("bfloat16", False)}
MODES["float16"] = ("float16", False)
Sizes = tuple[int, int, int, int]  # batch, tokens, dim, hidden
# Odd sizes, several tiles, wide rows; each with both norms.
CHECKED: list[Sizes] = [(7, 4, 12, 24), (130, 16, 128, 256), (65, 8, 192, 192)]
SEED = np.array([3, -4], np.int64)


class Device(Protocol):
    """What a case needs of a device."""

    def empty(self, size: int) -> int: ...
    def put(self, array: np.ndarray) -> int: ...
    def get(self, address: int, shape: tuple[int, ...], dtype: type) -> np.ndarray: ...
    def free_all(self) -> None: ...
    def seconds(self, work: Callable[[], None], repeats: int) -> float: ...


class Placed:
    """A block's arrays on a device, and the two passes over them."""

    def __init__(self, block: CudaBlock, device: Device, problem: BlockProblem, *, keep: bool = True) -> None:
        self.problem = problem
        self._block, self._device, self._dtype = block, device, NUMPY[problem.dtype]
        self.dy, self.x, self.weights = random_block(problem, 1)
        narrow = [np.ascontiguousarray(array.astype(self._dtype)) for array in (self.dy, self.x, *self.weights)]
        self._dy, self._x, *weights = (device.put(array) for array in narrow)
        self._w = BlockAddresses(*weights)
        self._y, self._dx = device.empty(narrow[1].nbytes), device.empty(narrow[1].nbytes)
        self._dw = BlockAddresses(*(device.empty(array.nbytes) for array in narrow[2:]))
        size = np.dtype(self._dtype).itemsize * problem.tokens * problem.batch
        self._kept = Kept(device.empty(size * problem.inner), device.empty(size * problem.dim)) if keep else None
        self._seed = device.put(SEED)
        size = max(block.forward_bytes(problem, keep=keep), block.backward_bytes(problem, keep=keep))
        self._scratch = Scratch(device.empty(size), size)

    def forward(self) -> None:
        self._block.forward(self.problem, self._x, self._w, self._y, self._scratch, seed=self._seed, kept=self._kept)

    def backward(self) -> None:
        self._block.backward(
            self.problem,
            self._dy,
            self._x,
            self._w,
            self._dx,
            self._dw,
            self._scratch,
            seed=self._seed,
            kept=self._kept,
        )

    def step(self) -> None:
        self.forward()
        self.backward()

    def answers_equal(self) -> bool:
        """Whether result and all gradients are those of NumPy in float64; runs both passes."""
        self.step()
        of = reference.forward(self.problem, self.x, self.weights, SEED)
        dx, dweights = reference.backward(self.problem, self.dy, self.x, self.weights, SEED)
        bound = BOUNDS[self.problem.dtype, self.problem.tf32]
        pairs = zip((self._y, self._dx, *self._dw), (of.y, dx, *dweights))
        return all(
            error(self._device.get(address, wanted.shape, self._dtype), wanted).within(bound)
            for address, wanted in pairs
        )


def agrees(block: CudaBlock, device: Device, mode: tuple[str, bool], shapes: Sequence[Sizes] = CHECKED) -> bool:
    """Whether small blocks of all kinds give float64's answers."""
    right = True
    for index, (batch, tokens, dim, hidden) in enumerate(shapes):
        for norm in NORMS:
            activation = ACTIVATIONS[index % len(ACTIVATIONS)]
            problem = BlockProblem(batch, tokens, dim, hidden, mode[0], norm, activation, dropout=0.25, tf32=mode[1])
            for keep in (True, False):
                right &= Placed(block, device, problem, keep=keep).answers_equal()
                device.free_all()
    return right


def flops(problem: BlockProblem) -> float:
    """Of the forward pass's products; the backward pass has twice as many."""
    return 2.0 * problem.batch * problem.tokens * problem.dim * (problem.inner + problem.hidden)


def against_peak(
    case: str,
    block: CudaBlock,
    device: Device,
    problem: BlockProblem,
    best: Peak,
    *,
    step: bool,
    repeats: int,
    shapes: Sequence[Sizes] = CHECKED,
) -> Result:
    """Achieved against possible TFLOP/s, the best of five."""
    right = agrees(block, device, (problem.dtype, problem.tf32), shapes)
    placed = Placed(block, device, problem, keep=step)
    work = placed.step if step else placed.forward
    device.seconds(work, max(1, repeats // 4))
    seconds = min(device.seconds(work, repeats) for _ in range(5)) / repeats
    device.free_all()
    achieved = flops(problem) * (3 if step else 1) / seconds / 1e12
    what = "forward and backward" if step else "forward"
    sizes = f"batch {problem.batch}, {problem.tokens} tokens of {problem.dim}, hidden {problem.hidden}"
    compared = f"{what} of one block, {sizes}, {seconds * 1e6:,.1f} us, against {best.source}"
    return Result(case, achieved, best.tflops, "TFLOP/s", achieved / best.tflops, right, compared)


def main() -> int:
    """Runs the cases asked for."""
    try:
        if find_nvcc() is None:
            raise CudaError("nvcc not found: install the CUDA toolkit (12 or later), or set NVCC")
        device = Gpu()
        block = CudaBlock(str(build()))
    except (CudaError, NoGpuError) as reason:
        print(f"bench-gpu: cannot run here: {reason}", file=sys.stderr)
        return 2

    def case(name: str, mode: str, step: bool) -> Callable[[bool], Result]:
        dtype, tf32 = MODES[mode]

        def run(full: bool) -> Result:
            problem = BlockProblem(2048, 16, 512, 2048, dtype, tf32=tf32)
            if full:
                problem = replace(problem, batch=4096, tokens=32, dim=1024, hidden=4096)
            best = peak(device.name, dtype, tf32)
            return against_peak(name, block, device, problem, best, step=step, repeats=20)

        return run

    cases = {
        f"{what}_{mode}": case(f"{what}_{mode}", mode, what == "step") for what in ("forward", "step") for mode in MODES
    }
    print(f"bench-gpu: {device.name}", file=sys.stderr)
    from tests.bench import rankmixer_gpu_tensorflow

    try:
        cases |= rankmixer_gpu_tensorflow.cases()
    except rankmixer_gpu_tensorflow.NotComparableError as reason:
        print(f"bench-gpu: no comparison with TensorFlow: {reason}", file=sys.stderr)
    return run_cases("rankmixer_gpu", cases)


if __name__ == "__main__":
    sys.exit(main())
