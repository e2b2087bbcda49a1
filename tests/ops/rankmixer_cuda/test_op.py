"""TensorFlow's GPU kernels of the block, registered for the CPU and with the emulator behind them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ops.rankmixer_gpu import NORMS, BlockProblem
from tests.ops.rankmixer_cuda import emulated, reference
from tests.ops.rankmixer_cuda.cases import error, random_block
from tests.ops.rankmixer_cuda.reference import Array

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Op, kernels and emulated block as one library."""
    spec = importlib.util.spec_from_file_location("setup_of_ps_cluster", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    setup_py = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup_py)
    compile_flags, link_flags = setup_py._tensorflow_flags()
    block, made = emulated.build(), tmp_path_factory.mktemp("op") / "_op.so"
    units = ["ops/rankmixer/ops/rankmixer_block_ops.cc", "ops/rankmixer_cuda/kernels/rankmixer_block_gpu.cc"]
    flags = [*compile_flags, "-O1", "-fPIC", "-shared", "-DNDEBUG", "-DPS_CLUSTER_DEVICE=tensorflow::DEVICE_CPU"]
    linked = [str(block), f"-Wl,-rpath,{block.parent}", *link_flags]
    command = [os.environ.get("CXX") or "g++", *flags, "-I", str(ROOT), *units, *linked, "-o", str(made)]
    subprocess.run(command, cwd=ROOT, check=True)
    return made


def test_units_that_are_dropped_are_those_of_the_cpu_kernels() -> None:
    import tensorflow as tf

    from ops.library import load_rankmixer

    problem = BlockProblem(9, 4, 32, 48, dropout=0.3)
    _, x, weights = random_block(problem, 2)
    seed = np.array([-5, 1 << 40], np.int64)
    inputs = [tf.constant(array, tf.float32) for array in (x, *weights)]
    y, *_ = load_rankmixer().ps_cluster_rankmixer_block(*inputs, tf.constant(seed), dropout=0.3)
    # One unit more or less would be an error of a tenth.
    assert error(y.numpy(), reference.forward(problem, x, weights, seed).y).worst < 1e-4
    assert error(emulated.run_forward(problem, x, weights, seed).y, y.numpy().astype(np.float64)).worst < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_op_and_gradient_agree_with_float64_and_name_a_wrong_input(
    library: Path, tmp_path: Path, norm: str, keep: bool
) -> None:
    problem = BlockProblem(7, 4, 32, 48, norm=norm, activation="swiglu", dropout=0.25)
    dy, x, weights = random_block(problem, 1)
    seed = np.array([5, 6], np.int64)
    names = ["dy", "x", *weights._fields]
    arrays = {name: array.astype(np.float32) for name, array in zip(names, [dy, x, *weights])}
    np.savez(tmp_path / "given.npz", **arrays, seed=seed)
    arguments = [library, tmp_path / "given.npz", tmp_path / "found.npz", norm, "swiglu", "keep" if keep else "not"]
    program = Path(__file__).with_name("run_op.py")
    subprocess.run([sys.executable, program, *map(str, arguments)], cwd=ROOT, check=True)

    with np.load(tmp_path / "found.npz") as file:
        refused, y, inner, total, *gradients = file.values()
    of = reference.forward(problem, x, weights, seed)
    dx, dweights = reference.backward(problem, dy, x, weights, seed)
    wanted: list[Array] = [of.y, *([of.inner, of.sum] if keep else []), dx, *dweights]
    found = [y, *([inner, total] if keep else []), *gradients]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        assert error(one, other).worst < 2e-5
    assert keep or (inner.shape, total.shape) == ((0, 0, 0), (0, 0, 0))
    # The seed's shape is looked at as well, since something is dropped.
    assert refused.all()
