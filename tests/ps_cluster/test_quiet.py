"""TensorFlow's start-up noise is shown only when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = "import os, sys; from ps_cluster.quiet import held_output, import_tensorflow\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("TF_USE_LEGACY_KERAS", "TF_CPP_MIN_LOG_LEVEL")}
    return subprocess.run(
        [sys.executable, "-c", START + code], capture_output=True, text=True, env=environment, check=False
    )


def test_importing_tensorflow_writes_nothing() -> None:
    done = run(
        "tf = import_tensorflow(gpu=False)\n"
        "from tensorflow_recommenders_addons.dynamic_embedding import CuckooHashTable as Table\n"
        "print(tf.keras.Model.__module__, tf.config.list_physical_devices('GPU'), Table.__name__)"
    )
    assert (done.stdout, done.stderr) == ("tf_keras.src.engine.training [] CuckooHashTable\n", "")


def test_noise_of_all_kinds_is_dropped_and_the_streams_come_back() -> None:
    done = run(
        "with held_output():\n"
        "    print('python'); print('error', file=sys.stderr)\n"
        "    os.write(1, b'native'); os.write(2, b'native' * 100_000)\n"
        "print('after'); print('after too', file=sys.stderr)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "after\n", "after too\n")


def test_a_failing_import_shows_what_was_written() -> None:
    done = run("with held_output():\n    os.write(2, b'libfoo.so: wrong version\\n'); raise ImportError('foo')")
    assert done.returncode == 1 and done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "libfoo.so: wrong version" and lines[-1] == "ImportError: foo"


@pytest.mark.parametrize("death", ["os.abort()", "os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_a_process_that_dies_shows_what_was_written(death: str) -> None:
    done = run(f"with held_output():\n    os.write(2, b'needs AVX'); {death}")
    assert done.returncode != 0
    assert (done.stdout, done.stderr) == ("", "needs AVX")


def test_a_process_that_ends_on_purpose_drops_what_was_written() -> None:
    done = run(
        "from ps_cluster.quiet import drop_held_output\n"
        "with held_output():\n    os.write(2, b'noise'); drop_held_output(); os._exit(0)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_closed_streams_are_no_obstacle() -> None:
    done = run("os.close(1)\nwith held_output():\n    pass\nos.write(2, b'fine')")
    assert (done.returncode, done.stderr) == (0, "fine")


def test_no_process_stays_behind() -> None:
    done = run("with held_output(): pass\ntry: os.waitpid(-1, os.WNOHANG)\nexcept ChildProcessError: print('none')")
    assert done.stdout == "none\n"
