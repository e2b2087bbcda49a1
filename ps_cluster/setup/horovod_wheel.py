"""The wheel of Horovod, built from its source package for one TensorFlow, one Python and one machine kind."""

from __future__ import annotations

import os
import platform
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ps_cluster.setup.kept import keeping
from ps_cluster.setup.pins import Pins
from ps_cluster.setup.steps import StepFailed, Steps


def wheel_key(pins: Pins, python_tag: str, gpu: bool) -> str:
    """Name that tells apart every wheel that must not be exchanged for another."""
    versions = f"horovod-{pins.version('horovod')}-tensorflow-{pins.version('tensorflow')}"
    machine = f"{sysconfig.get_platform()}-{''.join(platform.libc_ver())}"
    return f"{versions}-{python_tag}-{machine}-{'gpu' if gpu else 'cpu'}"


def build_wheel(pins: Pins, venv: Path, key: str, gpu: bool, steps: Steps) -> None:
    """Builds the wheel with the virtual environment at `venv` and keeps it under `key`."""
    env = {
        **os.environ,
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITHOUT_MPI": "1",
        # Horovod asks for a CMake older than CMake 4 agrees to be.
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    }
    if gpu:
        env["HOROVOD_GPU_OPERATIONS"] = "NCCL"
    with keeping(key) as folder, _path_without_space(venv) as plain_venv:
        # CMake must find the Python of the virtual environment, also by name.
        env["PATH"] = f"{plain_venv / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
        env["VIRTUAL_ENV"] = str(plain_venv)
        env["TMPDIR"] = str(plain_venv.parent)
        command = [str(plain_venv / "bin" / "python"), "-m", "pip", "wheel", "--wheel-dir", str(folder)]
        command += ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--no-input"]
        # Another index's wheel, or one in pip's own cache, may have been built against another TensorFlow.
        command += ["--no-binary", "horovod", "--no-cache-dir", "--progress-bar", "off"]
        command += [f"horovod=={pins.version('horovod')}"]
        steps.run(command, cwd=plain_venv.parent, env=env)


@contextmanager
def _path_without_space(venv: Path) -> Iterator[Path]:
    """A path of the same folder without a space, in a folder for temporary files without one.

    Horovod's build passes paths through a shell and through CMake lists.
    """
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if not any(letter.isspace() for letter in parent) and os.access(parent, os.W_OK):
            break
    else:
        raise StepFailed("ps-cluster: Horovod's build needs a temporary folder without a space: set TMPDIR")
    with tempfile.TemporaryDirectory(prefix="ps-cluster-", dir=parent) as folder:
        link = Path(folder, "venv")
        link.symlink_to(venv, target_is_directory=True)
        yield link
