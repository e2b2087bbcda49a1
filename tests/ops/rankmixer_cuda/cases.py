"""Inputs of a block, and how far a result may be from float64's."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

from ops.rankmixer_gpu import BlockProblem
from tests.ops.rankmixer_cuda.reference import Array, BlockArrays

NUMPY = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


class Error(NamedTuple):
    """How far an array is from what was wanted, in units of that one's root mean square; NaN counts as infinite."""

    typical: float  # root mean square
    worst: float

    def within(self, bound: Error) -> bool:
        return self.typical <= bound.typical and self.worst <= bound.worst


def error(found: Array, wanted: Array) -> Error:
    assert found.shape == wanted.shape
    if wanted.size == 0:
        return Error(0.0, 0.0)
    scale = float(np.sqrt(np.mean(wanted**2))) or 1.0
    difference = np.nan_to_num(np.abs(found.astype(np.float64) - wanted) / scale, nan=np.inf)
    return Error(float(np.sqrt(np.mean(difference**2))), float(np.max(difference)))


# How numbers go through the tensor cores: dtype, and whether float32 is rounded to TF32.
EXACT = ("float32", False)
MODES = [EXACT, ("float32", True), ("bfloat16", False), ("float16", False)]
# Three times what was found, with rounding alone: TF32 and float16 have 10 bits of mantissa, bfloat16 has 7.
BOUNDS = {
    EXACT: Error(3e-6, 2e-5),
    ("float32", True): Error(3e-3, 4e-2),
    ("bfloat16", False): Error(3e-2, 4e-1),
    ("float16", False): Error(3e-3, 4e-2),
}


def random_block(problem: BlockProblem, seed: int) -> tuple[Array, Array, BlockArrays]:
    """dy, x and weights as float64 values that the problem's dtype holds exactly."""
    draw = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 1.0, mean: float = 0.0) -> Array:
        return (mean + scale * draw.standard_normal(shape)).astype(NUMPY[problem.dtype]).astype(np.float64)

    tokens, dim, hidden, inner = problem.tokens, problem.dim, problem.hidden, problem.inner
    beta = (0,) if problem.norm == "pre_rms" else (dim,)
    weights = BlockArrays(
        gamma1=normal(dim, scale=0.2, mean=1.0),
        beta1=normal(*beta, scale=0.2),
        w1=normal(tokens, dim, inner, scale=dim**-0.5),
        b1=normal(tokens, inner, scale=0.2),
        w2=normal(tokens, hidden, dim, scale=hidden**-0.5),
        b2=normal(tokens, dim, scale=0.2),
        gamma2=normal(dim, scale=0.2, mean=1.0),
        beta2=normal(*beta, scale=0.2),
    )
    shape = (problem.batch, tokens, dim)
    return normal(*shape), normal(*shape, mean=0.3), weights
