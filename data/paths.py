"""From what a user writes (files, folders, patterns, manifests) to the list of ORC files."""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import posixpath
from collections.abc import Sequence
from itertools import islice
from typing import Any

from data import files
from data.errors import DataError

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1

_SHOWN_PROBLEMS = 20
_LOOKED_AT_FOLDERS = 1000


def expand(patterns: Sequence[str], base: str) -> list[str]:
    """The files that `patterns` name.

    A pattern is a file, a folder (its `*.orc` files, not those of its sub-folders), a glob (`**` crosses folders; a
    matching folder counts as a folder) or a manifest (a file named `manifest.json`: the files it lists). A folder that
    holds a manifest stands for the manifest: files that it does not list are not read, and one that it lists must be
    there, whole. The folder of a conversion that is not finished, its work folder beside it, is refused.

    Patterns may be addresses (`data.files`); relative ones start at the folder `base`. The files of one pattern are
    sorted by name (those of a manifest as it lists them), patterns keep their order, a file named twice counts once.

    Raises `DataError` with a line for each pattern that gives no file, and each listed file that is missing or of
    another size.
    """
    found: dict[str, None] = {}
    problems = []
    for pattern in patterns:
        try:
            found.update(dict.fromkeys(_expand_one(pattern, base)))
        except DataError as error:
            problems += str(error).splitlines()
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        raise DataError("\n".join(problems[:_SHOWN_PROBLEMS] + ([f"and {more} more problems"] if more > 0 else [])))
    return list(found)


def unlisted(patterns: Sequence[str], base: str) -> list[str]:
    """The ORC files that lie beside the manifests that `patterns` stand for, not in sub-folders, without being listed
    or named themselves: `expand` leaves them out. Raises `DataError` where `expand` does, but not for listed files
    that are missing or changed.
    """
    manifests = []
    named = set()
    for pattern in patterns:
        for entry in _entries(pattern, base)[1]:
            manifest = _manifest_of(entry)
            if manifest is not None:
                manifests.append(manifest)
            elif entry.kind == "file":
                named.add(_normal(entry.path))
    found: dict[str, str] = {}
    for manifest in manifests:
        folder = manifest[: -len(MANIFEST)]
        listed = {folder + item["name"] for item in read_manifest(manifest)["files"]}
        found |= {_normal(path): path for path in _orc_files(folder) if path not in listed}
    return [path for normal, path in found.items() if normal not in named]


def read_manifest(path: str) -> dict[str, Any]:
    """The manifest `path`, whose `files` are dicts with at least `name` and `bytes`. Raises `DataError`."""
    try:
        with files.open_input(path) as file:
            manifest = json.loads(file.read())
    except FileNotFoundError:
        raise DataError(f"{path}: expected a manifest, found no file by that name") from None
    except OSError as error:
        raise DataError(f"{path}: expected a readable manifest, found: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected a manifest in JSON, found: {error}") from None
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != MANIFEST_VERSION:
        raise DataError(f"{path}: expected a manifest of format_version {MANIFEST_VERSION}, found {version!r}")
    listed = manifest.get("files")
    if not isinstance(listed, list):
        raise DataError(f"{path}: files: expected a list, found {type(listed).__name__}")
    for number, item in enumerate(listed):
        place = f"{path}: files[{number}]"
        if not isinstance(item, dict):
            raise DataError(f"{place}: expected an object, found {type(item).__name__}")
        name, size = item.get("name"), item.get("bytes")
        if not isinstance(name, str) or not name or name.startswith("/") or ".." in name.split("/"):
            raise DataError(f"{place}: name: expected a name below the manifest's folder, found {name!r}")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise DataError(f"{place}: bytes: expected a number of bytes, found {size!r}")
    return manifest


def _expand_one(pattern: str, base: str) -> list[str]:
    full, matches = _entries(pattern, base)
    found = [file for match in matches for file in _files_of(match)]
    if not found:
        raise DataError(f"{full}: {_why_nothing(full, matches)}")
    return found


def _entries(pattern: str, base: str) -> tuple[str, list[files.Entry]]:
    """(the pattern with its folder in front, what it matches)."""
    if not pattern:
        raise DataError("'': expected a file, folder or pattern, found an empty name")
    remote = files.is_remote(pattern)
    pattern = pattern if remote else files.local_path(pattern)
    full = pattern if remote else os.path.join(base, pattern)
    (entry,) = files.describe([full])
    # What exists is meant literally, so that a name may contain brackets.
    if entry.kind != "nothing":
        return full, [entry]
    # Only what the user wrote is a pattern, not the folder it starts at.
    return full, _matching(pattern) if remote else _matching_here(os.path.join(glob.escape(base), pattern))


def _files_of(entry: files.Entry) -> list[str]:
    manifest = _manifest_of(entry)
    if manifest is not None:
        return _listed(manifest)
    if entry.kind == "file":
        return [entry.path]
    if not files.is_remote(entry.path) and os.path.isfile(
        os.path.join(f"{os.path.abspath(entry.path)}.work", "plan.json")
    ):
        raise DataError(f"{entry.path}: expected a finished conversion, found one under way or interrupted")
    return _orc_files(entry.path)


def _manifest_of(entry: files.Entry) -> str | None:
    """The manifest that a file or folder stands for."""
    if entry.kind == "file":
        return entry.path if os.path.basename(entry.path) == MANIFEST else None
    inside = _join(entry.path, MANIFEST)
    return inside if files.describe([inside])[0].kind == "file" else None


def _orc_files(folder: str) -> list[str]:
    """The `*.orc` files of a folder, sorted."""
    if files.is_remote(folder):
        return [file.path for file in files.list_folder(folder) if file.kind == "file" and file.path.endswith(".orc")]
    paths = (_join(folder, name) for name in sorted(os.listdir(folder or ".")) if name.endswith(".orc"))
    return [path for path in paths if not os.path.isdir(path)]


def _listed(manifest: str) -> list[str]:
    """The files of a manifest, which must be there with the sizes it says."""
    listed = read_manifest(manifest)["files"]
    if not listed:
        raise DataError(f"{manifest}: files: expected at least one, found none")
    folder = manifest[: -len(MANIFEST)]
    paths = [folder + item["name"] for item in listed]
    if files.is_remote(manifest):
        # One listing instead of a question for each file.
        sizes = {
            file.path: file.file_bytes for file in files.list_folder(folder, recursive=True) if file.kind == "file"
        }
    else:
        sizes = {file.path: file.file_bytes for file in files.describe(paths) if file.kind == "file"}
    problems = []
    for path, item in zip(paths, listed):
        if path not in sizes:
            problems.append(f"{path}: expected the file that {manifest} lists, found none by that name")
        elif sizes[path] != item["bytes"]:
            problems.append(
                f"{path}: expected {item['bytes']} bytes, as {manifest} lists it, found {sizes[path]}; "
                "the file was changed or is not whole"
            )
    if problems:
        raise DataError("\n".join(problems))
    return paths


def _matching_here(pattern: str) -> list[files.Entry]:
    """What a glob names on this machine, sorted by name."""
    return files.describe(sorted(glob.glob(pattern, recursive=True)))


def _matching(pattern: str) -> list[files.Entry]:
    """What a glob names on a remote file system, sorted by name."""
    if not glob.has_magic(pattern):
        return []
    # The folders before the first wildcard; then one listing of all that may match.
    scheme, _, host, *parts = pattern.rstrip("/").split("/")
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), None)
    if glob.has_magic(host) or fixed is None:
        raise DataError(f"{pattern}: expected wildcards only behind {scheme}//name/, found them in {host!r}")
    folder = f"{scheme}//{host}/" + "".join(f"{part}/" for part in parts[:fixed])
    inside = files.list_folder(folder, recursive=fixed < len(parts) - 1 or parts[-1] == "**")
    top = [files.Entry(folder, "folder", 0)] if _matches([], parts[fixed:]) else []
    return top + [entry for entry in inside if _matches(entry.path[len(folder) :].split("/"), parts[fixed:])]


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a glob, by the rules of `glob`: hidden names need their dot."""
    if not patterns:
        return not names
    first, rest = patterns[0], patterns[1:]
    seen = bool(names) and (first.startswith(".") or not names[0].startswith("."))
    if first == "**":
        return _matches(names, rest) or (seen and _matches(names[1:], patterns))
    return seen and fnmatch.fnmatchcase(names[0], first) and _matches(names[1:], rest)


def _normal(path: str) -> str:
    """The same for all ways to write a local path."""
    return path if files.is_remote(path) else os.path.normpath(path)


def _join(folder: str, name: str) -> str:
    return (posixpath if files.is_remote(folder) else os.path).join(folder, name)


def _why_nothing(full: str, matches: Sequence[files.Entry]) -> str:
    if [match.path for match in matches] == [full]:
        if not files.is_remote(full) and any(
            name.endswith(".orc") for _, _, names in islice(os.walk(full), _LOOKED_AT_FOLDERS) for name in names
        ):
            return f"expected a folder with .orc files, found them only in its sub-folders: {_join(full, '**/*.orc')}"
        return "expected a folder with .orc files, found none in it"
    if matches:
        return "expected a pattern that names files, found only folders without .orc files"
    if glob.has_magic(full):
        return "expected a pattern that names files, found no file that matches"
    return "expected a file or folder, found nothing by that name"
