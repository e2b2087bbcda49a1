"""The optimisers' bits do not depend on the vector instructions of the processor."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
UNITS = ["tests/ops/table/row_optimizer_bits.cc", "ops/cc/table/row_optimizer.cc"]
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-ffp-contract=off", "-DNDEBUG", "-I."]


def bits(folder: Path, name: str, *flags: str) -> str:
    program = folder / name
    subprocess.run(["g++", *FLAGS, *flags, *UNITS, "-o", str(program)], cwd=ROOT, check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_wide_vectors_and_narrow_ones_give_the_same_bits(tmp_path: Path) -> None:
    if not {"avx2", "avx512f"} & set(Path("/proc/cpuinfo").read_text().split()):
        pytest.skip("this processor has narrow vectors only")
    widest = bits(tmp_path, "widest")
    # Under a sanitizer there is one version of each loop, for any processor.
    assert widest == bits(tmp_path, "plain", "-D__SANITIZE_ADDRESS__")
    assert len(set(widest.splitlines())) == 10
