"""COPY: from the build's context or an earlier stage's tree into a tree."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ps_cluster.errors import UserError


def copy(root: Path, paths: Sequence[str] | None, sources: Sequence[str], tree: Path, target: str, where: str) -> None:
    """Copies what the sources name to `target`: a folder's content into it, files into a folder or to that name.

    Args:
      root: the sources' folder.
      paths: what of it may be copied, relative, folders first; None: everything.
      where: for errors, the instruction's file and line.

    Raises UserError when a source is not there.
    """
    for source in sources:
        pattern = source.strip("/").removeprefix("./")
        found = [root] if pattern in ("", ".") else sorted(root.glob(pattern))
        if paths is not None:
            found = [one for one in found if one == root or _inner(one, root) in paths]
        if not found:
            raise UserError(f"{where}: expected {source} to be there and not ignored, found no such file")
        for one in found:
            place = _place(tree, target, where)
            if one.is_dir() and paths is None:
                _copy_all(one, place)
            elif one.is_dir():
                _copy_listed(root, one, paths or (), place)
            else:
                into = target.endswith("/") or place.is_dir() or len(found) > 1
                place = place / one.name if into else place
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(one, place, follow_symlinks=False)


def _copy_all(folder: Path, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    keep = "--preserve=mode,timestamps,links,xattr"  # all is root's afterwards
    subprocess.run(["cp", "-R", "-P", keep, "--reflink=auto", f"{folder}/.", str(place)], check=True)


def _copy_listed(root: Path, folder: Path, paths: Sequence[str], place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for path in paths:
        source = root / path
        if not source.is_relative_to(folder) or source == folder:
            continue
        made = place / source.relative_to(folder)
        made.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():
            made.mkdir(exist_ok=True)
            shutil.copymode(source, made)
        else:
            shutil.copy2(source, made, follow_symlinks=False)


def _inner(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _place(tree: Path, target: str, where: str) -> Path:
    """The target in the tree. A link on the way, which this machine would follow out of the tree, is refused."""
    parts = PurePosixPath(target).parts[1:]
    for end in range(1, len(parts) + 1):
        if tree.joinpath(*parts[:end]).is_symlink() or parts[end - 1] == "..":
            raise UserError(f"{where}: expected a target without links and .., found {target}")
    return tree.joinpath(*parts)
