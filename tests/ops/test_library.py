"""Libraries that are damaged, or built for something else: one line says which, and what to run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from ops import library
from ops.elf import damage
from ops.library import LibraryError

ROOT = Path(__file__).resolve().parents[2]
WHOLE = Path(library.PATH).read_bytes()
BUILD = "; build it with `python setup.py build_ext --inplace`"


@pytest.mark.parametrize("path", [library.PATH, library.ORC_PATH, library.RANKMIXER_PATH, sys.executable])
def test_a_whole_file_is_not_damaged(path: str) -> None:
    assert damage(path) is None


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"<html>no such page</html>", "a file that is no library"),
        (WHOLE[:20], "20 bytes, less than a library's header"),
        (WHOLE[:64], rf"64 of a library's {len(WHOLE)} bytes"),
        (WHOLE[: len(WHOLE) // 2], rf"{len(WHOLE) // 2} of a library's {len(WHOLE)} bytes"),
        (WHOLE[:-1], rf"{len(WHOLE) - 1} of a library's {len(WHOLE)} bytes"),
        (WHOLE[:4] + b"\x01" + WHOLE[5:], "a library of another kind of machine"),
        (
            WHOLE.replace(b"_ZN10tensorflow8OpKernel", b"_ZN10tensorflow8OpKernal"),
            "one that does not load .undefined .*",
        ),
    ],
)
def test_what_is_wrong_with_a_library_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, found: str
) -> None:
    path = tmp_path / "_ops.so"
    path.write_bytes(content)
    monkeypatch.setattr(library, "PATH", str(path))
    expected = re.escape(f"{path}: expected an op library for TensorFlow {tf.__version__}, found ")
    with pytest.raises(LibraryError) as raised:
        library.load.__wrapped__()
    assert re.fullmatch(f"{expected}{found}{re.escape(BUILD)}", str(raised.value))


def test_an_op_that_a_library_of_older_sources_lacks_is_named() -> None:
    with pytest.raises(
        LibraryError, match=r"_ops\.so: expected an op library with ps_cluster_later, found one of other"
    ):
        library.load().ps_cluster_later  # noqa: B018
    assert library.load().ps_cluster_push is not None


@pytest.mark.parametrize("command", ["table ls nowhere", "ps --index 0 --ps 127.0.0.1:1 --workers 127.0.0.1:2"])
def test_a_command_that_needs_a_damaged_library_ends_with_one_line(tmp_path: Path, command: str) -> None:
    for package in ("data", "models", "ops", "ps_cluster"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "ops/_ops.so"
    path.write_bytes(WHOLE[:300_000])
    done = subprocess.run(
        [sys.executable, "-m", "ps_cluster", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    expected = f"{path}: expected an op library for TensorFlow {tf.__version__}"
    assert done.stderr.endswith(f"{expected}, found 300000 of a library's {len(WHOLE)} bytes{BUILD}\n")
    assert done.stderr.count("\n") == 1
