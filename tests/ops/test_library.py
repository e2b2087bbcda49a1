"""Libraries that are damaged, or built for something else: one line says which, and what to run."""

from __future__ import annotations

import os
import re
import shutil
import struct
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


def changed(offset: int, number: int) -> bytes:
    return WHOLE[:offset] + struct.pack("<Q", number) + WHOLE[offset + 8 :]


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
        (changed(0x20, 2**64 - 1), rf"{len(WHOLE)} of a library's \d+ bytes"),  # where its segments are told
        (changed(0x28, 2**63), rf"{len(WHOLE)} of a library's \d+ bytes"),  # and its sections
        (WHOLE[:4096] + bytes(len(WHOLE) - 4096), r"a library with nothing but zeros from byte \d+ on, where it .*"),
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


@pytest.mark.parametrize("path", [library.PATH, library.ORC_PATH, library.RANKMIXER_PATH])
def test_the_end_of_a_library_that_was_never_written_is_noticed_wherever_it_begins(path: str, tmp_path: Path) -> None:
    whole = Path(path).read_bytes()
    cut = tmp_path / "cut.so"
    for start in range(0, len(whole) - 8192, len(whole) // 40):
        cut.write_bytes(whole[:start] + bytes(len(whole) - start))
        assert damage(str(cut)) is not None, start


def test_a_page_of_code_that_was_never_written_is_noticed(tmp_path: Path) -> None:
    page = 64 * 4096  # the middle of the code
    path = tmp_path / "_ops.so"
    path.write_bytes(WHOLE[:page] + bytes(4096) + WHOLE[page + 4096 :])
    assert damage(str(path)) == f"a library with nothing but zeros from byte {page} on, where it has contents"


def test_what_is_no_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkdir(tmp_path / "folder")
    os.symlink("loop", tmp_path / "loop")
    told = {"pipe": "a file that is no library", "folder": "Is a directory"}
    for name, found in {**told, "loop": "Too many levels of symbolic links", "none": "no such file"}.items():
        monkeypatch.setattr(library, "PATH", str(tmp_path / name))
        with pytest.raises(LibraryError, match=f"{name}: expected an op library for TensorFlow .*, found {found}; "):
            library.load.__wrapped__()


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
