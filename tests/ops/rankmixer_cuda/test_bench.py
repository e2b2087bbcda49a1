"""The benchmark of the CUDA block, as far as it goes without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ops.rankmixer_gpu import BlockProblem
from tests.bench.rankmixer_gpu import Placed, against_peak
from tests.bench.rankmixer_gpu_peak import Peak, known_peak
from tests.ops.rankmixer_cuda import emulated

ROOT = Path(__file__).resolve().parents[3]


class MainMemory:
    """What the benchmark needs of a device, for the emulator."""

    def __init__(self) -> None:
        self._taken: dict[int, np.ndarray] = {}

    def empty(self, size: int) -> int:
        raw = np.full(size + 256, 0xFF, np.uint8)
        address = -(-raw.ctypes.data // 256) * 256
        self._taken[address] = raw[address - raw.ctypes.data :][:size]
        return address

    def put(self, array: np.ndarray) -> int:
        address = self.empty(array.nbytes)
        self._taken[address][:] = array.reshape(-1).view(np.uint8)
        return address

    def get(self, address: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        return self._taken[address].view(dtype).reshape(shape).copy()

    def free_all(self) -> None:
        self._taken.clear()

    def seconds(self, work: Callable[[], None], repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        return time.perf_counter() - start


@pytest.mark.parametrize("nvcc", [True, False])
def test_without_nvcc_or_gpu_it_ends_with_one_line_and_code_2(nvcc: bool, tmp_path: Path) -> None:
    if nvcc and Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    program = tmp_path / "nvcc"
    if nvcc:  # found, and not needed any further
        program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        program.chmod(0o755)
    command = [sys.executable, "-m", "tests.bench.rankmixer_gpu", "--json"]
    env = {**os.environ, "NVCC": str(program)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bench-gpu: cannot run here: " + ("" if nvcc else "nvcc not found: "))
    assert ("NVIDIA driver" in done.stderr) == nvcc
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("step", [True, False])
def test_a_case_runs_from_end_to_end_on_the_emulator(step: bool) -> None:
    problem = BlockProblem(9, 4, 16, 32, "bfloat16")
    best = Peak(2.0, "nowhere")
    result = against_peak(
        "a", emulated.library(), MainMemory(), problem, best, step=step, repeats=1, shapes=[(7, 4, 12, 24)]
    )
    assert result.answers_equal
    assert 0 < result.ours < 2.0  # an emulator makes no 2 TFLOP/s
    assert result.ratio == pytest.approx(result.ours / 2.0)


def test_wrong_answers_are_told() -> None:
    placed = Placed(emulated.library(), MainMemory(), BlockProblem(9, 4, 16, 32))
    assert placed.answers_equal()
    placed.dy = placed.dy * 1.001
    assert not placed.answers_equal()


@pytest.mark.parametrize(
    ("device", "tflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA L4", 121.0),
        ("NVIDIA L40S", 362.0),
        ("NVIDIA L40", None),
        ("NVIDIA GeForce RTX 3090 Ti", None),
    ],
)
def test_a_card_is_known_by_whole_words_of_its_name(device: str, tflops: float | None) -> None:
    found = known_peak(device, "bfloat16", False)
    assert (found.tflops if found else None) == tflops
