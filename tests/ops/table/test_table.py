"""The native table by its own C++ programs: plain in the normal suite, under sanitizers as slow tests."""

from __future__ import annotations

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((ROOT / "ops/cc/table").glob("*.cc"))
PROGRAMS = ["against_model", "look_ups", "rules", "threads"]
# As the library is compiled: the same arithmetic as the model's.
FLAGS = ["-std=c++17", "-fno-math-errno", "-ffp-contract=off", "-Wall", "-Wextra", "-pthread", f"-I{ROOT}"]


def build(flags: list[str], folder: Path) -> Path:
    """The folder of the programs, compiled with `flags`."""
    compiler = shlex.split(os.environ.get("CXX") or "g++")

    def compile_unit(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        subprocess.run([*compiler, *FLAGS, *flags, "-c", str(source), "-o", str(target)], check=True)
        return target

    programs = [Path(__file__).with_name(f"{name}.cc") for name in PROGRAMS]
    with ThreadPoolExecutor(2) as pool:
        objects = dict(zip([*SOURCES, *programs], pool.map(compile_unit, [*SOURCES, *programs])))
    for program in programs:
        units = [str(objects[unit]) for unit in [program, *SOURCES]]
        subprocess.run([*compiler, *FLAGS, *flags, *units, "-o", str(folder / program.stem)], check=True)
    return folder


def run(program: Path, *arguments: str) -> None:
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-4000:]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(["-O1"], tmp_path_factory.mktemp("plain"))


def test_every_answer_is_the_models(plain: Path) -> None:
    run(plain / "against_model")


def test_look_ups_find_every_key_and_no_other(plain: Path) -> None:
    run(plain / "look_ups")


def test_admission_and_eviction_keep_their_rules(plain: Path) -> None:
    run(plain / "rules")


def test_no_thread_loses_an_update_or_sees_half_a_call(plain: Path) -> None:
    run(plain / "threads")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizers_find_nothing(sanitizer: str, tmp_path: Path) -> None:
    folder = build(["-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"], tmp_path)
    run(folder / "against_model", "4")
    run(folder / "look_ups", "30")
    run(folder / "rules")
    run(folder / "threads", "400")
