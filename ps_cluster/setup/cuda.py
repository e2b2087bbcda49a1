"""Compiles the CUDA library of the fused RankMixer block, which needs nvcc and neither TensorFlow nor a GPU.

`python -m ps_cluster.setup.cuda` builds it alone and puts it at `ops/_rankmixer_cuda.so`; `make env GPU=1` does so too,
together with TensorFlow's kernels that call it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "ops" / "rankmixer_cuda"
KEPT = ROOT / "build" / "ops" / "_rankmixer_cuda"
TARGET = ROOT / "ops" / "_rankmixer_cuda.so"

# 8.0 code runs on 8.6 and 8.9 as well; later ones than 9.0 translate the last.
ARCHITECTURES = ("arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90")
FLAGS = ["-std=c++17", "-O3", "-Xcompiler", "-fPIC,-Wall"]
# The CUDA runtime is inside and seen by nobody else: TensorFlow or torch beside it bring their own.
LINK_FLAGS = [
    "-shared",
    "-cudart",
    "static",
    "-Xlinker",
    "--exclude-libs,ALL",
    "-Xlinker",
    "-soname,_rankmixer_cuda.so",
]
JOBS = 2


class CudaError(Exception):
    """Why the library could not be built, in one line; a compiler's words went to standard error before."""


def find_nvcc() -> list[str] | None:
    """nvcc as a command: that of the variable NVCC, of the path, or in its usual place."""
    named = os.environ.get("NVCC")
    if named:
        command = shlex.split(named)
        return command if shutil.which(command[0]) else None
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    return [found] if found else None


def units() -> list[Path]:
    return sorted(SOURCES.glob("*.cu"))


def compile_command(nvcc: Sequence[str], unit: Path, architectures: Sequence[str] = ARCHITECTURES) -> list[str]:
    """The command that compiles a unit, but for what it makes and where."""
    targets = [flag for architecture in architectures for flag in ("-gencode", architecture)]
    return [*nvcc, *FLAGS, *targets, "-I", str(ROOT), str(unit)]


def build() -> Path:
    """Path of the library, compiled where it does not exist yet; raises CudaError."""
    nvcc = find_nvcc()
    if nvcc is None:
        raise CudaError("nvcc not found: install the CUDA toolkit (12 or later), or set NVCC")
    version = subprocess.run([*nvcc, "--version"], capture_output=True, text=True).stdout
    state = hashlib.sha256(repr([nvcc, version, FLAGS, LINK_FLAGS, ARCHITECTURES]).encode())
    for path in sorted([*SOURCES.glob("*.cu*"), *SOURCES.glob("*.h")]):
        state.update(b"%s\0%d\0" % (path.name.encode(), path.stat().st_size) + path.read_bytes())
    target = KEPT / f"_rankmixer_cuda.{state.hexdigest()[:16]}.so"
    if target.exists():
        return target
    part = KEPT / f"{target.name}.{os.getpid()}"
    part.mkdir(parents=True, exist_ok=True)
    objects = [part / f"{unit.name}.o" for unit in units()]

    def compiled(unit: Path, made: Path) -> bool:
        print(f"compiling {unit.relative_to(ROOT)}", flush=True)
        return _run([*compile_command(nvcc, unit), "-c", "-o", str(made)])

    with ThreadPoolExecutor(JOBS) as pool:
        failed = [unit for unit, good in zip(units(), pool.map(compiled, units(), objects)) if not good]
    made = part / target.name
    if failed:
        raise CudaError(f"{', '.join(unit.name for unit in failed)} did not compile; the compiler's words are above")
    if not _run([*nvcc, *LINK_FLAGS, *map(str, objects), "-o", str(made)]):
        raise CudaError("the CUDA library did not link; the linker's words are above")
    for old in KEPT.glob("*.so"):
        if old.is_file():
            old.unlink()
    made.rename(target)
    shutil.rmtree(part)
    return target


def install(library: Path, target: Path = TARGET) -> None:
    """Puts the library in place by a rename: a process that has the old one mapped keeps the old one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copyfile(library, part)
    part.rename(target)


def _run(command: Sequence[str]) -> bool:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, end="", file=sys.stderr, flush=True)
    return done.returncode == 0


def main() -> int:
    try:
        install(build())
    except CudaError as error:
        print(f"ps-cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
