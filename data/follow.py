"""A folder that files are added to: which ORC files are new in it."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Collection

from data import files
from data.errors import DataError
from data.paths import MANIFEST

_PARTIAL = ".partial"


def check_followable(folder: str) -> None:
    """Returns when files may be added to `folder`, a path or an address.

    Raises:
      DataError: there is no such folder, or it is closed: a manifest lists what belongs to it.
    """
    if not files.is_remote(folder) and not os.path.isdir(folder):
        raise DataError(f"{folder}: expected a folder that files are added to, found none by that name")
    if files.describe([in_folder(folder, MANIFEST)])[0].kind == "file":
        raise DataError(f"{folder}: expected a folder that files are added to, found one that its {MANIFEST} closes")


def in_folder(folder: str, name: str) -> str:
    """The path of a file of the folder."""
    return (posixpath if files.is_remote(folder) else os.path).join(folder, name)


def name_hash(name: str) -> int:
    """64 bits, signed, by which a file's name is kept: of a million names two are alike once in 10⁷ folders."""
    return int.from_bytes(
        hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest(), "big", signed=True
    )


def new_files(folder: str, known: Collection[int]) -> list[tuple[str, int]]:
    """(name, bytes) of each ORC file of the folder whose `name_hash` is not in `known`, in the order of the names.

    Hidden files, `*.partial`, `*.partial.orc` and those of sub-folders do not count.

    Raises:
      DataError: the folder cannot be listed.
    """
    found = []
    if files.is_remote(folder):
        entries = files.list_folder(folder)
        listed = [(posixpath.basename(one.path), one.file_bytes) for one in entries if one.kind == "file"]
    else:
        try:
            with os.scandir(folder) as inside:
                names = [one.name for one in inside if one.name.endswith(".orc")]
        except OSError as error:
            raise DataError(f"{folder}: expected a folder that can be listed, found: {error.strerror}") from None
        listed = [(name, -1) for name in names]
    for name, size in sorted(listed):
        if not name.endswith(".orc") or name.startswith(".") or name.removesuffix(".orc").endswith(_PARTIAL):
            continue
        if name_hash(name) in known:
            continue
        if size < 0:
            entry = files.describe([in_folder(folder, name)])[0]
            if entry.kind != "file":
                continue
            size = entry.file_bytes
        found.append((name, size))
    return found
