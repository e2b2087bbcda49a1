"""The CUDA sources compiled for the CPU by the emulator, and calls of them with guarded memory."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ops.rankmixer_gpu import BlockAddresses, BlockProblem, CudaBlock, Kept, Scratch
from tests.ops.rankmixer_cuda.cases import NUMPY
from tests.ops.rankmixer_cuda.reference import Array, BlockArrays, Forward

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "ops" / "rankmixer_cuda"
EMULATOR = Path(__file__).resolve().parent / "emulator"
KEPT = ROOT / "build" / "emulator"
FLAGS = ["-std=c++17", "-O2", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-DPS_CLUSTER_EMULATOR"]

GUARD = 512
"""Bytes on both sides of every array, multiple of 256; what is read there is NaN."""


def build() -> Path:
    """Path of the library of the block."""
    return _built("rankmixer", [*sorted(SOURCES.glob("*.cu")), *sorted(EMULATOR.glob("*.cc"))])


def build_with(unit: Path) -> Path:
    """Path of a library of one unit and the emulator."""
    return _built(unit.stem, [unit, *sorted(EMULATOR.glob("*.cc"))])


def _built(name: str, units: list[Path]) -> Path:
    """A library, compiled once for each content of the sources."""
    compiler = os.environ.get("CXX") or "g++"
    state = hashlib.sha256(repr([compiler, FLAGS]).encode())
    for path in sorted({*units, *SOURCES.glob("*.cu*"), *SOURCES.glob("*.h"), *EMULATOR.iterdir()}):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    target = KEPT / f"{name}.{state.hexdigest()[:16]}.so"
    if target.exists():
        return target
    part = KEPT / f"{target.name}.{os.getpid()}"
    part.mkdir(parents=True, exist_ok=True)

    def compile_unit(unit: Path) -> Path:
        made = part / f"{unit.name}.o"
        includes = ["-I", str(ROOT), "-I", str(EMULATOR)]
        subprocess.run([compiler, *FLAGS, *includes, "-x", "c++", "-c", str(unit), "-o", str(made)], check=True)
        return made

    with ThreadPoolExecutor(2) as pool:
        objects = [str(path) for path in pool.map(compile_unit, units)]
    made = part / target.name
    subprocess.run([compiler, "-shared", "-Wl,--no-undefined", *objects, "-o", str(made)], check=True)
    for old in KEPT.glob(f"{name}.*.so"):
        old.unlink(missing_ok=True)
    made.rename(target)
    shutil.rmtree(part)
    return target


@functools.cache
def library() -> CudaBlock:
    return CudaBlock(str(build()))


def choose_order(order: int, seed: int = 0, late: bool = True) -> None:
    """How the threads of the next calls take turns; `emulator/block.h` says what the numbers mean."""
    ctypes.CDLL(str(build())).ps_cluster_emulator_order(order, seed, late)


class Memory:
    """Arrays in memory full of NaN, as a kernel gets them: misplaced writes are found, misplaced reads give NaN."""

    def __init__(self, misaligned: int = 0) -> None:
        """misaligned: bytes that arrays begin behind a multiple of 256; scratch memory excepted."""
        self.misaligned = misaligned
        self._pieces: list[tuple[Array, int, int]] = []

    def empty(self, shape: tuple[int, ...], dtype: type, misaligned: int | None = None) -> Array:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.full(size + 2 * GUARD + 512, 0xFF, np.uint8)
        start = -(-(raw.ctypes.data + GUARD) // 256) * 256 - raw.ctypes.data
        start += self.misaligned if misaligned is None else misaligned
        self._pieces.append((raw, start, size))
        return raw[start : start + size].view(dtype).reshape(shape)

    def put(self, values: Array, dtype: type) -> Array:
        array = self.empty(values.shape, dtype)
        array[...] = values.astype(dtype)
        return array

    def check(self) -> None:
        for raw, start, size in self._pieces:
            assert (raw[:start] == 0xFF).all() and (raw[start + size :] == 0xFF).all(), "written outside an array"


def _address(array: Array | None) -> int:
    return 0 if array is None else array.ctypes.data


def run_forward(
    problem: BlockProblem,
    x: Array,
    w: BlockArrays,
    seed: Array | None = None,
    *,
    keep: bool = True,
    misaligned: int = 0,
    block: CudaBlock | None = None,
) -> Forward:
    """What the kernels give, in the problem's dtype; `inner` and `sum` are empty without `keep`."""
    block = block or library()
    memory, dtype = Memory(misaligned), NUMPY[problem.dtype]
    inputs, weights = memory.put(x, dtype), [memory.put(array, dtype) for array in w]
    y = memory.empty(x.shape, dtype)
    inner = memory.empty((problem.tokens, problem.batch, problem.inner) if keep else (0,), dtype)
    total = memory.empty((problem.tokens, problem.batch, problem.dim) if keep else (0,), dtype)
    scratch = memory.empty((block.forward_bytes(problem, keep=keep),), np.uint8, 16)
    block.forward(
        problem,
        _address(inputs),
        BlockAddresses(*map(_address, weights)),
        _address(y),
        Scratch(_address(scratch), scratch.nbytes),
        seed=_address(seed),
        kept=Kept(_address(inner), _address(total)) if keep else None,
    )
    memory.check()
    return Forward(y, inner, total)


def run_backward(
    problem: BlockProblem,
    dy: Array,
    x: Array,
    w: BlockArrays,
    seed: Array | None = None,
    *,
    kept: Forward | None = None,
    misaligned: int = 0,
) -> tuple[Array, BlockArrays]:
    block, memory, dtype = library(), Memory(misaligned), NUMPY[problem.dtype]
    grads, inputs, weights = memory.put(dy, dtype), memory.put(x, dtype), [memory.put(array, dtype) for array in w]
    kept_inner, kept_sum = (memory.put(kept.inner, dtype), memory.put(kept.sum, dtype)) if kept else (None, None)
    dx, dw = memory.empty(x.shape, dtype), [memory.empty(array.shape, dtype) for array in w]
    scratch = memory.empty((block.backward_bytes(problem, keep=kept is not None),), np.uint8, 16)
    block.backward(
        problem,
        _address(grads),
        _address(inputs),
        BlockAddresses(*map(_address, weights)),
        _address(dx),
        BlockAddresses(*map(_address, dw)),
        Scratch(_address(scratch), scratch.nbytes),
        seed=_address(seed),
        kept=Kept(_address(kept_inner), _address(kept_sum)) if kept else None,
    )
    memory.check()
    return dx, BlockArrays(*dw)
