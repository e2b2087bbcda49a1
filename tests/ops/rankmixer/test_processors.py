"""The same numbers on every set of instructions, and the same bits for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ops.rankmixer_block import BlockOptions
from tests.ops.rankmixer.fused import assert_close, assert_same_bits
from tests.ops.rankmixer.reference import Result, block, example

ROOT = Path(__file__).resolve().parents[3]
SHAPES = [(530, 4, 24, 50), (9, 1, 40, 130), (70, 16, 32, 40)]
DTYPES = ["float32", "bfloat16", "float16"]
OPTIONS = [BlockOptions("post_ln", "gelu", dropout=0.2), BlockOptions("pre_rms", "swiglu")]
CASES = [(shape, options, dtype) for shape in SHAPES for options in OPTIONS for dtype in DTYPES]
TOLERANCES = {"float32": 3e-5, "float16": 1.5e-2, "bfloat16": 1e-1}
SEED = (11, 12)

PROGRAM = """
import sys
import numpy as np
import tensorflow as tf
from tests.ops.rankmixer.fused import run
from tests.ops.rankmixer.reference import example
from tests.ops.rankmixer.test_processors import CASES, SEED
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
arrays = {}
for index, (shape, options, dtype) in enumerate(CASES):
    x, weights, dy = example(*shape, options)
    result = run(x, weights, options, dy, dtype=tf.as_dtype(dtype), seed=SEED, keep=index % 2 == 0)
    arrays.update({f"{index}/y": result.y, **{f"{index}/{name}": of for name, of in result.gradients.items()}})
np.savez(sys.argv[2], **arrays)
"""


def results(path: Path, *, threads: int = 1, isa: str | None = None) -> list[Result]:
    """Results of `CASES` in a process of its own."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **({} if isa is None else {"PS_CLUSTER_ISA": isa}),
    }
    subprocess.run([sys.executable, "-c", PROGRAM, str(threads), str(path)], check=True, env=env, cwd=ROOT)
    arrays = np.load(path)
    found = []
    for index in range(len(CASES)):
        of_case = {name.split("/")[1]: arrays[name] for name in arrays.files if name.startswith(f"{index}/")}
        found.append(Result(of_case.pop("y"), of_case))
    return found


@pytest.mark.parametrize("isa", ["sse", "avx2", "avx512", "avx512_bf16", "amx"])
def test_every_set_of_instructions_computes_the_block(isa: str, tmp_path: Path) -> None:
    # On a processor without a set the next smaller one is tried again.
    for (shape, options, dtype), found in zip(CASES, results(tmp_path / "found.npz", isa=isa)):
        x, weights, dy = example(*shape, options)
        assert_close(found, block(x, weights, options, dy, SEED), TOLERANCES[dtype])


def test_bits_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    one = results(tmp_path / "one.npz")
    for threads in (2, 7):
        for first, other in zip(one, results(tmp_path / f"{threads}.npz", threads=threads)):
            assert_same_bits(first, other)
