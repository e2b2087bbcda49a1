"""The op library's two builds agree, and set-up says in one line what it misses."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

ROOT = Path(__file__).resolve().parent.parent


class OpLibrary(Protocol):
    """`setup.OpLibrary`, which cannot be imported."""

    path: str
    folder: str
    arrow: str | None
    sources: list[str]
    headers: list[str]

    def is_arrow(self, unit: str) -> bool: ...


@pytest.fixture(scope="module")
def setup_py() -> ModuleType:
    """setup.py, imported without running `setup()`."""
    spec = importlib.util.spec_from_file_location("setup_of_ps_cluster", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bazel_rule(name: str) -> dict[str, ast.expr]:
    """Arguments of the rule of this name in BUILD, which is Python as far as its grammar goes."""
    for node in ast.parse((ROOT / "BUILD").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            arguments = {keyword.arg: keyword.value for keyword in node.value.keywords if keyword.arg}
            if "name" in arguments and ast.literal_eval(arguments["name"]) == name:
                return arguments
    raise AssertionError(f"BUILD has no rule {name!r}")


def bazel_sources(srcs: ast.expr) -> list[str]:
    """Files of `srcs`, a list or `glob([...])`, relative to the checkout."""
    if isinstance(srcs, ast.Call):
        assert isinstance(srcs.func, ast.Name) and srcs.func.id == "glob"
        found = {path for pattern in ast.literal_eval(srcs.args[0]) for path in ROOT.glob(pattern)}
        for keyword in srcs.keywords:
            assert keyword.arg == "exclude"
            found -= {path for pattern in ast.literal_eval(keyword.value) for path in ROOT.glob(pattern)}
        return sorted(path.relative_to(ROOT).as_posix() for path in found)
    return sorted(ast.literal_eval(srcs))


@pytest.fixture(scope="module", params=["ops._ops", "ops._rankmixer", "ops._orc"])
def library(setup_py: ModuleType, request: pytest.FixtureRequest) -> OpLibrary:
    """One of the libraries as setup.py describes it."""
    return setup_py.LIBRARIES[request.param]


def bazel_units(library: OpLibrary) -> dict[str, list[str]]:
    """The files of the rules that make up a library, by the name of the rule."""
    rules = [library.path, *(["orc_arrow", "orc_interface"] if library.arrow else [])]
    found: dict[str, list[str]] = {}
    for name in rules:
        arguments = bazel_rule(name)
        found[name] = [f for key in ("srcs", "hdrs") if key in arguments for f in bazel_sources(arguments[key])]
    return found


def test_setup_py_and_bazel_compile_the_same_files(library: OpLibrary) -> None:
    assert library.sources
    files = [file for rule in bazel_units(library).values() for file in rule]
    assert sorted(files) == sorted([*library.sources, *library.headers])


def test_every_file_of_a_library_is_compiled_or_included(library: OpLibrary) -> None:
    # A package of its own below would also end Bazel's glob.
    found = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / library.folder).rglob("*") if path.is_file())
    assert found == sorted([*library.sources, *library.headers])


def test_units_of_arrow_have_no_header_of_tensorflow_and_the_others_none_of_arrow(library: OpLibrary) -> None:
    for file in [*library.sources, *library.headers]:
        included = re.findall(r'#include "(arrow|tensorflow|ops/orc/arrow)/', (ROOT / file).read_text(encoding="utf-8"))
        allowed = {"arrow", "ops/orc/arrow"} if library.is_arrow(file) else {"tensorflow"}
        assert set(included) <= allowed, file


def test_setup_py_and_bazel_optimise_alike(setup_py: ModuleType, library: OpLibrary) -> None:
    for name in bazel_units(library):
        rule = bazel_rule(name)
        if name == "orc_interface":  # headers only
            assert "copts" not in rule
            continue
        copts = rule["copts"]
        assert isinstance(copts, ast.BinOp)
        first, ours = copts.left, copts.right
        assert isinstance(first, ast.Name)
        assert first.id == ("ARROW_FLAGS" if name == "orc_arrow" else "COMPILE_FLAGS")
        # Position-independent code and warnings are Bazel's own defaults.
        assert set(ast.literal_eval(ours)) == set(setup_py.OPS_FLAGS) - {"-fPIC", "-Wall"}


def test_every_package_is_pinned_to_one_version(setup_py: ModuleType) -> None:
    pins = [*setup_py.REQUIREMENTS, *setup_py.INDIRECT, *setup_py.BUILD_TOOLS, setup_py.MOVIELENS]
    pins += [pin for extra in setup_py.EXTRAS.values() for pin in extra]
    pattern = re.compile(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+(; python_version (<|>=) '3\.11')?")
    assert [pin for pin in pins if not pattern.fullmatch(pin)] == []


def test_installed_packages_are_the_pinned_ones(setup_py: ModuleType) -> None:
    from importlib.metadata import version

    older = sys.version_info < (3, 11)
    for pin in [*setup_py.REQUIREMENTS, *setup_py.EXTRAS["dev"], *setup_py.INDIRECT]:
        requirement, _, condition = pin.partition("; ")
        if condition and (" < " in condition) != older:
            continue
        name, _, expected = requirement.partition("==")
        assert (name, version(name)) == (name, expected)


def test_set_up_reads_the_pins_that_setup_py_holds(setup_py: ModuleType) -> None:
    from ps_cluster.setup.pins import read_pins

    pins = read_pins(ROOT / "setup.py")
    assert list(pins.requirements) == setup_py.REQUIREMENTS
    assert {name: list(of) for name, of in pins.extras.items()} == setup_py.EXTRAS
    assert list(pins.indirect) == setup_py.INDIRECT
    assert list(pins.build_tools) == setup_py.BUILD_TOOLS
    assert pins.movielens == setup_py.MOVIELENS
    assert pins.version("tensorflow") == "2.16.2"


@pytest.fixture
def bare_machine(tmp_path: Path) -> dict[str, str]:
    """Environment of a machine with this Python, as python3.11, and next to nothing else."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "id", "head"):
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    (folder / "python3.11").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (folder / "python3.11").chmod(0o755)
    return {"PATH": str(folder), "HOME": str(tmp_path)}


def set_up(checkout: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What `make env` runs, in a checkout that holds only what it needs."""
    checkout.mkdir(exist_ok=True)
    shutil.copy(ROOT / "setup.py", checkout)
    shutil.copytree(ROOT / "ps_cluster", checkout / "ps_cluster", dirs_exist_ok=True)
    command = ["sh", "ps_cluster/setup/python.sh", "-m", "ps_cluster.setup.env"]
    return subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True)


def test_missing_programs_are_named_with_the_command_that_installs_them(
    tmp_path: Path, bare_machine: dict[str, str]
) -> None:
    done = set_up(tmp_path / "a checkout", bare_machine)
    sudo = "" if os.geteuid() == 0 else "sudo "
    expected = f"ps-cluster needs g++, cmake and make: {sudo}apt-get install g++ cmake make\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)


def test_python_out_of_range_is_said_in_one_line(tmp_path: Path, bare_machine: dict[str, str]) -> None:
    Path(bare_machine["PATH"], "python3.11").unlink()
    done = set_up(tmp_path / "checkout", bare_machine)
    assert done.returncode == 1
    assert done.stderr.startswith("ps-cluster needs Python 3.11: ")
    assert "apt-get install python3.11 python3.11-venv" in done.stderr
    assert done.stderr.count("\n") == 1


def test_chosen_python_that_does_not_run_is_said_in_one_line(tmp_path: Path, bare_machine: dict[str, str]) -> None:
    done = set_up(tmp_path / "checkout", {**bare_machine, "PYTHON": "/no/such/python"})
    assert done.returncode == 1
    assert done.stderr.startswith("ps-cluster needs Python 3.11: PYTHON=/no/such/python ")
    assert done.stderr.count("\n") == 1


def test_failed_step_shows_the_last_words_of_its_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from ps_cluster.setup.steps import StepFailed, Steps

    steps = Steps(1, tmp_path / "setup.log", before_first=lambda: None)
    steps.begin("packages")
    with pytest.raises(StepFailed, match="set-up failed at 'packages'"):
        steps.run(["sh", "-c", "echo no network >&2; exit 3"], cwd=tmp_path)
    assert "no network" in capfd.readouterr().out
    assert "no network" in (tmp_path / "setup.log").read_text(encoding="utf-8")


def test_wheel_is_kept_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ps_cluster.setup.kept import keeping, kept_wheel, wheels_folder

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    with pytest.raises(KeyboardInterrupt), keeping("horovod-1") as folder:
        (folder / "horovod-1-py3-none-any.whl").write_bytes(b"half")
        raise KeyboardInterrupt
    assert kept_wheel("horovod-1") is None
    assert list(wheels_folder().iterdir()) == []
    with keeping("horovod-1") as folder:
        (folder / "horovod-1-py3-none-any.whl").write_bytes(b"whole")
    wheel = kept_wheel("horovod-1")
    assert wheel is not None and wheel.read_bytes() == b"whole"


def test_op_library_is_in_place_and_loads(library: OpLibrary) -> None:
    assert ops_of(ROOT / library.path)


def test_only_the_library_of_the_readers_needs_arrow(setup_py: ModuleType) -> None:
    for library in setup_py.LIBRARIES.values():
        needed = subprocess.run(["readelf", "-d", ROOT / library.path], check=True, capture_output=True, text=True)
        # Its exact name changes with each major version of pyarrow, whose layout in memory the library is built for.
        assert bool(re.search(r"NEEDED.*\[libarrow\.so\.\d+\]", needed.stdout)) == (library.arrow is not None)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bazel") is None, reason="Bazel is not installed")
@pytest.mark.skipif(" " in str(ROOT), reason="Bazel refuses to run below a path with a space")
def test_bazel_builds_the_same_ops(tmp_path: Path, setup_py: ModuleType) -> None:
    libraries = [library.path for library in setup_py.LIBRARIES.values()]
    options = ["--symlink_prefix=/", f"--repo_env=PS_CLUSTER_PYTHON={sys.executable}"]
    # Batch mode leaves no server behind.
    bazel = ["bazel", "--batch", f"--output_user_root={tmp_path / 'bazel'}"]
    env = {**os.environ, "PS_CLUSTER_PYTHON": sys.executable}
    try:
        subprocess.run(
            [*bazel, "build", *options, *(f"//:{path}" for path in libraries)], cwd=ROOT, env=env, check=True
        )
        info = [*bazel, "info", *options, "bazel-bin"]
        found = subprocess.run(info, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
        for path in libraries:
            assert ops_of(Path(found.stdout.strip(), path)) == ops_of(ROOT / path)
    finally:
        # Bazel write-protects what it has built.
        subprocess.run(["chmod", "-R", "u+w", str(tmp_path)], check=True)


def ops_of(library: Path) -> dict[str, str]:
    """Ops that this library registers and their arguments, from a process of its own."""
    program = """
import inspect, json, sys
import tensorflow as tf
module = tf.load_op_library(sys.argv[1])
ops = [op for _, op in inspect.getmembers(module, inspect.isfunction) if op.__module__ == module.__name__]
print(json.dumps({op.__name__: str(inspect.signature(op)) for op in ops}))
"""
    command = [sys.executable, "-c", program, str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(text.splitlines()[-1])
