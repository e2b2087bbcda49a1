"""Numbered folders of versions, as TF Serving watches them: each appears whole, by one renaming.

What is not finished lies in a folder whose name begins with a dot, which no server loads. One that a killed process
left behind is removed by the next export.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from ps_cluster.errors import RunError, UserError

_BESIDE = re.compile(r"\.[^/]*\.(?P<host>[^/]+)~(?P<process>\d+)\.part")
_DELTA = re.compile(r"delta-(?P<base>\d+)-to-(?P<version>\d+)")


@dataclass(frozen=True)
class Unfinished:
    """What becomes a version: `model` is to be filled, `scratch` is for what is not needed afterwards."""

    number: int
    model: str
    scratch: str


def version_numbers(parent: str) -> list[int]:
    """Versions below `parent`, oldest first."""
    try:
        return sorted(int(name) for name in os.listdir(parent) if name.isdecimal())
    except FileNotFoundError:
        return []


def next_number(parent: str) -> int:
    """One above all versions, and all that deltas lead to."""
    deltas = [int(found["version"]) for name in _names(parent) if (found := _DELTA.fullmatch(name))]
    return max([0, *version_numbers(parent), *deltas]) + 1


def delta_name(base: int, version: int) -> str:
    """The name of the folder of a delta."""
    return f"delta-{base}-to-{version}"


@contextlib.contextmanager
def new_folder(parent: str, number: int, name: str | None = None) -> Iterator[Unfinished]:
    """Makes a version's folder below `parent`; it has its name (by default its number) when the block ends well, and
    else leaves nothing.

    Raises:
        UserError: `parent` cannot be made.
        RunError: the disk is full or cannot be written.
    """
    name = name or str(number)
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as error:
        raise UserError(f"--to: expected a folder that can be made, found {parent!r}: {error.strerror}") from None
    _remove_left_behind(parent)
    beside = os.path.join(parent, f".{name}.{socket.gethostname()}~{os.getpid()}.part")
    unfinished = Unfinished(number, os.path.join(beside, "model"), os.path.join(beside, "scratch"))
    try:
        os.makedirs(unfinished.model)
        yield unfinished
        _sync(unfinished.model)
        os.rename(unfinished.model, os.path.join(parent, name))
        _sync_folder(parent)
    except OSError as error:
        raise RunError(f"{error.filename or parent}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def folder_bytes(folder: str) -> int:
    """Bytes of all files below a folder."""
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)


def _names(parent: str) -> list[str]:
    try:
        return os.listdir(parent)
    except FileNotFoundError:
        return []


def _remove_left_behind(parent: str) -> None:
    """Removes what processes of this machine that are gone did not finish."""
    for name in _names(parent):
        found = _BESIDE.fullmatch(name)
        if found is None or found["host"] != socket.gethostname() or int(found["process"]) == os.getpid():
            continue
        try:
            os.kill(int(found["process"]), 0)
        except ProcessLookupError:
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
        except PermissionError:
            pass


def _sync(folder: str) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            _sync_folder(os.path.join(place, name))
        _sync_folder(place)


def _sync_folder(path: str) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
