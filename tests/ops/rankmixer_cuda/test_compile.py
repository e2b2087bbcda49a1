"""The CUDA sources compile for the GPUs they are meant for, and the libraries load where there is none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ops.rankmixer_gpu import BlockAddresses, BlockError, BlockProblem, CudaBlock, Scratch
from ps_cluster.setup import cuda

ROOT = Path(__file__).resolve().parents[3]
NVCC = cuda.find_nvcc()
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")


def kernels(unit: str, architecture: str, made: Path) -> list[tuple[str, int, int]]:
    """Name, registers a thread and bytes spilled of each kernel of a unit."""
    assert NVCC is not None
    target = f"arch=compute_{architecture},code=sm_{architecture}"
    command = cuda.compile_command(NVCC, cuda.SOURCES / unit, [target])
    done = subprocess.run(
        [*command, "-cubin", "-Xptxas", "-v", "-o", str(made)], capture_output=True, text=True, check=True
    )
    pattern = r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) reg"
    found = re.findall(pattern, done.stderr, re.DOTALL)
    return [(name, int(registers), int(stores) + int(loads)) for name, stores, loads, registers in found]


@needs_nvcc
@pytest.mark.parametrize("architecture", ["80", "90"])
@pytest.mark.parametrize(
    "unit",
    [
        "block_bfloat16.cu",
        pytest.param("block_float16.cu", marks=pytest.mark.slow),
        pytest.param("block_float32.cu", marks=pytest.mark.slow),
    ],
)
def test_kernels_keep_to_their_registers_and_two_blocks_fit(unit: str, architecture: str, tmp_path: Path) -> None:
    found = kernels(unit, architecture, tmp_path / "cubin")
    assert len(found) > 20
    # float32's operands take twice the registers of narrow ones: its products park a few words.
    allowed = 64 if unit == "block_float32.cu" else 0
    assert [kernel for kernel in found if kernel[2] > allowed] == []
    # 65,536 registers, 256 threads a block.
    assert [kernel for kernel in found if kernel[1] > 128] == []


@needs_nvcc
@pytest.mark.slow
def test_the_libraries_build_and_load_in_a_tensorflow_without_gpu(tmp_path: Path) -> None:
    env = {**os.environ, "PS_CLUSTER_CUDA": "1"}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(tmp_path / "built")]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    program = """
import json, sys
import tensorflow as tf
from tensorflow.python.framework import kernels
tf.load_op_library(sys.argv[1] + "/ops/_rankmixer.so")
tf.load_library(sys.argv[1] + "/ops/_rankmixer_gpu.so")
types = lambda kernel: [value for at in kernel.constraint for value in at.allowed_values.list.type]
found = lambda op: [of for of in kernels.get_registered_kernels_for_op(op).kernel if of.device_type == "GPU"]
print(json.dumps({op: sorted(sum(map(types, found(op)), [])) for op in sys.argv[2:]}))
"""
    ops = ["PsClusterRankmixerBlock", "PsClusterRankmixerBlockGrad"]
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "built"), *ops], check=True, capture_output=True, text=True
    )
    # float, bfloat16, half as TensorFlow numbers them.
    assert json.loads(done.stdout.splitlines()[-1]) == {op: [1, 14, 19] for op in ops}

    block = CudaBlock(str(tmp_path / "built" / "ops" / "_rankmixer_cuda.so"))
    problem = BlockProblem(8, 4, 32, 128)
    scratch = Scratch(1 << 20, block.forward_bytes(problem))
    if not Path("/dev/nvidiactl").exists():
        with pytest.raises(BlockError, match=r"CUDA driver|no CUDA-capable device"):
            block.forward(problem, 1 << 20, BlockAddresses(*[1 << 20] * 8), 1 << 20, scratch)


def test_a_library_that_was_not_built_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"_rankmixer_cuda.so: CUDA library not built; build it with `make env"):
        CudaBlock(str(tmp_path / "_rankmixer_cuda.so"))


def test_building_without_nvcc_says_so_in_one_line(tmp_path: Path) -> None:
    env = {**os.environ, "NVCC": str(tmp_path / "nvcc")}
    done = subprocess.run(
        [sys.executable, "-m", "ps_cluster.setup.cuda"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ps-cluster: nvcc not found: install the CUDA toolkit (12 or later), or set NVCC\n"
