"""A folder of checkpoints has one writer; the next one comes when that one is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ps_cluster.checkpoint import sole_writer as module
from ps_cluster.checkpoint.sole_writer import sole_writer
from ps_cluster.errors import UserError

HOLD = """
import sys, time
from ps_cluster.checkpoint.sole_writer import sole_writer
with sole_writer(sys.argv[1]):
    print("holds", flush=True)
    time.sleep(300)
"""


def test_a_second_writer_is_refused_and_told_whose_the_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / "checkpoints")
    other = subprocess.Popen([sys.executable, "-c", HOLD, folder], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "holds\n"
        monkeypatch.setattr(module, "_PATIENCE_SECONDS", 0.5)
        with (
            pytest.raises(UserError, match=f"found process {other.pid} on .* writing to {folder}"),
            sole_writer(folder),
        ):
            pass
    finally:
        other.kill()
        other.communicate()
    with sole_writer(folder):
        pass
    with sole_writer(folder):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = str(tmp_path / "file" / "checkpoints")
    with pytest.raises(UserError, match=f"checkpoint.folder: expected a folder .* found {folder}"), sole_writer(folder):
        pass


def test_an_address_is_not_held() -> None:
    with sole_writer("s3://bucket/folder"):
        pass
