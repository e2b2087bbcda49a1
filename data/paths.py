"""From what a user writes (files, folders, patterns) to the list of ORC files."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from data.errors import DataError


def expand(patterns: Sequence[str], base: str) -> list[str]:
    """The files that `patterns` name.

    A pattern is a file, a folder (its `*.orc` files, not those of its sub-folders) or a glob (`**` crosses
    folders; a matching folder counts as a folder). Relative patterns start at the folder `base`. The files of
    one pattern are sorted by name, patterns keep their order, a file named twice counts once.

    Raises `DataError` with a line for each pattern that gives no file.
    """
    files: dict[str, None] = {}
    problems = []
    for pattern in patterns:
        full = os.path.join(base, pattern)
        # What exists is meant literally, so that a name may contain brackets.
        matches = [full] if os.path.exists(full) else sorted(glob.glob(full, recursive=True))
        found = [file for match in matches for file in _files_of(match)]
        if not found:
            problems.append(f"{full}: {_why_nothing(full, matches)}")
        files.update(dict.fromkeys(found))
    if problems:
        raise DataError("\n".join(problems))
    return list(files)


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    inside = (os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".orc"))
    return [file for file in inside if not os.path.isdir(file)]


def _why_nothing(full: str, matches: list[str]) -> str:
    if matches == [full]:
        return "expected a folder with .orc files, found none in it"
    if matches:
        return "expected a pattern that names files, found only folders without .orc files"
    if glob.has_magic(full):
        return "expected a pattern that names files, found no file that matches"
    return "expected a file or folder, found nothing by that name"
