"""An export that is killed, or finds the disk full, leaves earlier versions as they were and nothing that is loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ps_cluster.errors import RunError
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.saved_model import export_saved_model
from ps_cluster.export.version_folder import new_folder, next_number, version_numbers
from tests.ps_cluster.export.exported_job import Training


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    training = Training(tmp_path_factory.mktemp("job"))
    training.train(2)
    training.save()
    return training


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root mounts a small disk")
    yield str(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("form", ["plain", "ops"])
def test_a_full_disk_is_told_and_earlier_versions_stay(training: Training, small_disk: str, form: Form) -> None:
    import tensorflow as tf

    first = export_saved_model(training.job_file, small_disk, form=form)
    held = sorted(os.listdir(first))
    free = os.statvfs(small_disk)
    ballast = free.f_bavail * free.f_frsize - 60_000
    Path(small_disk, "ballast").write_bytes(bytes(ballast))
    with pytest.raises((RunError, tf.errors.OpError), match=r"No space left|not write|full"):
        export_saved_model(training.job_file, small_disk, form=form)
    assert sorted(os.listdir(small_disk)) == ["1", "ballast"]
    assert sorted(os.listdir(first)) == held
    tf.saved_model.load(first)
    os.unlink(os.path.join(small_disk, "ballast"))
    assert export_saved_model(training.job_file, small_disk, form=form) == os.path.join(small_disk, "2")


WRITING = """
import sys, time
from ps_cluster.export.version_folder import new_folder
with new_folder(sys.argv[1], 2) as version:
    open(version.model + "/saved_model.pb", "w").write("half of it")
    print("writing", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_export_leaves_has_a_dot_and_goes_with_the_next(tmp_path: Path) -> None:
    parent = str(tmp_path / "served")
    with new_folder(parent, 1) as version:
        Path(version.model, "saved_model.pb").write_text("whole")
    writing = subprocess.Popen([sys.executable, "-c", WRITING, parent], stdout=subprocess.PIPE, text=True)
    assert writing.stdout is not None and writing.stdout.readline() == "writing\n"
    (beside,) = [name for name in os.listdir(parent) if name != "1"]
    with new_folder(parent, next_number(parent)):
        assert beside in os.listdir(parent)  # of a process that lives
    writing.send_signal(signal.SIGKILL)
    writing.wait()
    assert version_numbers(parent) == [1, 2] and beside.startswith(".")
    with new_folder(parent, next_number(parent)):
        assert beside not in os.listdir(parent)
    assert sorted(os.listdir(parent)) == ["1", "2", "3"]


@pytest.mark.slow
def test_exports_killed_at_any_time_leave_whole_versions(training: Training, tmp_path: Path) -> None:
    import tensorflow as tf

    program = (
        "import sys; from ps_cluster.quiet import import_tensorflow; import_tensorflow(gpu=False)\n"
        "from ops.library import load; load()\n"
        "import pickle; from ps_cluster.export.saved_model import export_saved_model\n"
        "job = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print('started', flush=True)\n"
        "while True: export_saved_model(job, sys.argv[2])\n"
    )
    import pickle

    (tmp_path / "job").write_bytes(pickle.dumps(training.job_file))
    parent = str(tmp_path / "served")
    for delay in (0.5, 1.3, 2.4):
        running = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "job"), parent], stdout=subprocess.PIPE, text=True
        )
        assert running.stdout is not None and running.stdout.readline() == "started\n"
        time.sleep(delay)
        running.kill()
        running.wait()
        for number in version_numbers(parent):
            tf.saved_model.load(os.path.join(parent, str(number)))
    export_saved_model(training.job_file, parent)
    assert not [name for name in os.listdir(parent) if not name.isdecimal()]
