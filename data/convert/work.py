"""The work folder beside the output: what a killed conversion leaves for the next one to continue with."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from data.convert.merge import FileInfo, sha256_of
from data.convert.runs import write_whole
from data.errors import DataError
from data.paths import MANIFEST

_PLAN = "plan.json"
# What a conversion makes; nothing else is ever removed.
_OWN_FILE = re.compile(r"part-\d{5,}\.(orc|tfrecord|tfrecord\.gz)(?P<partial>\.[0-9a-f]+\.partial)?")
_OWN_PARTIAL = re.compile(r"plan\.json\.[0-9a-f]+\.partial")
_OWN_WORK = re.compile(rf"plan\.json|samples\.npy|runs|files|{_OWN_PARTIAL.pattern}")


def output_folder(path: str) -> str:
    """The path of a folder to write, so that names can be put behind it. Raises DataError where none can be."""
    if not path:
        raise DataError("'': expected a folder to write, found an empty name")
    if "://" in path:
        raise DataError(f"{path}: expected a folder of this machine to write, found an address")
    path = os.path.normpath(path)
    if os.path.basename(path) in ("", ".", ".."):
        path = os.path.abspath(path)
    parent = path
    while not os.path.lexists(parent):
        parent = os.path.dirname(os.path.abspath(parent))
    if not os.path.isdir(parent):
        raise DataError(f"{path}: expected a folder to write, found that {parent} is no folder")
    return path


@contextlib.contextmanager
def locked(out: str) -> Iterator[None]:
    """Holds the output for this process; another one's is a DataError. The lock ends with the process."""
    path = f"{out}.lock"
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before may have removed the file that we opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(path), os.fstat(lock)):
                    break
        except BlockingIOError:
            os.close(lock)
            raise DataError(f"{out}: expected an output of its own, found another conversion writing there") from None
        os.close(lock)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(lock)


class Work:
    """Folders of one conversion: `out` for what is made, `folder` for what is in the making."""

    def __init__(self, out: str, folder: str | None = None):
        self.out = out
        self.folder = f"{out}.work" if folder is None else output_folder(folder)
        self.runs = os.path.join(self.folder, "runs")
        self.files = os.path.join(self.folder, "files")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds both folders for this process; half a file does not stay when it fails."""
        with contextlib.ExitStack() as locks:
            locks.enter_context(locked(self.out))
            if self.folder != f"{self.out}.work":  # which is the output's alone
                locks.enter_context(locked(self.folder))
            try:
                yield
            except BaseException:
                self._remove_partial()
                raise

    def check(self, sources: Sequence[str]) -> None:
        """Raises DataError where what is made would lie among what is there: sources, or one folder in the other."""
        if _is_inside(self.folder, self.out):
            raise DataError(f"{self.folder}: expected a work folder outside of the output {self.out}, found it inside")
        for source in sources:
            for folder in (self.out, self.folder):
                if _is_inside(source, folder):
                    raise DataError(f"{folder}: expected a folder without sources, found {source} in it")

    @property
    def manifest(self) -> str:
        """Path of the manifest, which is written last."""
        return os.path.join(self.out, MANIFEST)

    def begin(self, identity: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
        """Makes the folders, or finds them as an earlier conversion of the same `identity` left them.

        The manifest, when that conversion was complete. Raises DataError when there is anything else.
        """
        if overwrite:
            self._remove()
        done = self._read(self.manifest)
        if done is not None:
            if done.get("identity") != identity:
                raise DataError(self._another("a finished conversion", done.get("identity"), identity))
            self._check_files(done)
            if self._is_ours():
                self._remove_work()
            return done
        begun = self._read(os.path.join(self.folder, _PLAN))
        if begun is not None and begun != identity:
            raise DataError(self._another("an unfinished conversion", begun, identity))
        if begun is None and os.path.isdir(self.out) and os.listdir(self.out):
            raise DataError(f"{self.out}: expected a new or empty folder, found files in it that are no conversion's")
        if begun is None:
            self._remove_work()  # a plan that cannot be read, or half of one
            os.makedirs(self.folder, exist_ok=True)
            write_whole(os.path.join(self.folder, _PLAN), json.dumps(identity))
        for folder in (self.out, self.runs, self.files):
            os.makedirs(folder, exist_ok=True)
        self._remove_partial()
        return None

    def finished_file(self, name: str) -> FileInfo | None:
        """The file's info when it was written and is as it was."""
        values = self._read(os.path.join(self.files, f"{name}.json"))
        path = os.path.join(self.out, name)
        if values is None or not os.path.exists(path) or os.path.getsize(path) != values["bytes"]:
            return None
        return FileInfo(**values) if sha256_of(path) == values["sha256"] else None

    def finish_file(self, info: FileInfo) -> None:
        """Notes that a file is written."""
        write_whole(os.path.join(self.files, f"{info.name}.json"), json.dumps(asdict(info)))

    def finish(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest and removes the work folder."""
        write_whole(self.manifest, json.dumps(manifest, indent=1) + "\n", sync=True)
        self._remove_work()

    def _check_files(self, done: dict[str, Any]) -> None:
        """Raises DataError when a file of the finished conversion is gone or of another size."""
        for file in done.get("files", ()):
            path = os.path.join(self.out, file["name"])
            size = os.path.getsize(path) if os.path.exists(path) else None
            if size != file["bytes"]:
                found = "no such file" if size is None else f"one of {size:,} bytes"
                raise DataError(
                    f"{path}: expected the file of {file['bytes']:,} bytes of a finished conversion, found {found}; "
                    "--overwrite makes all anew"
                )

    def _remove_partial(self) -> None:
        """Removes what killed writers left half done."""
        for name in os.listdir(self.out) if self._is_ours() and os.path.isdir(self.out) else ():
            match = _OWN_FILE.fullmatch(name)
            if match is not None and match["partial"]:
                os.unlink(os.path.join(self.out, name))

    def _is_ours(self) -> bool:
        """Whether the work folder is a conversion's: the plan is the first thing in it."""
        return os.path.exists(os.path.join(self.folder, _PLAN))

    def _remove_work(self) -> None:
        """Removes what a conversion left in the work folder, and the folder. Raises DataError if there is more."""
        names = sorted(os.listdir(self.folder)) if os.path.isdir(self.folder) else []
        own = _OWN_WORK if self._is_ours() else _OWN_PARTIAL
        strange = [name for name in names if not own.fullmatch(name)]
        if strange:
            raise DataError(f"{self.folder}: expected an empty folder to work in, found {strange[0]} in it")
        # The plan last: without it the rest would be strange.
        for name in sorted(names, key=lambda name: name == _PLAN):
            path = os.path.join(self.folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(self.folder)

    def _remove(self) -> None:
        self._remove_work()
        if not os.path.isdir(self.out):
            return
        # The manifest first: what is left without it is no finished conversion.
        names = sorted(os.listdir(self.out), key=lambda name: name != MANIFEST)
        strange = [name for name in names if not (name == MANIFEST or _OWN_FILE.fullmatch(name))]
        if strange:
            raise DataError(f"{self.out}: expected only a conversion's files to overwrite, found {strange[0]}")
        for name in names:
            os.unlink(os.path.join(self.out, name))

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            with open(path) as file:
                values = json.load(file)
            return values if isinstance(values, dict) else None
        except (FileNotFoundError, ValueError):
            return None

    def _another(self, what: str, found: Any, wanted: dict[str, Any]) -> str:
        found = found if isinstance(found, dict) else {}
        changed = [name for name in wanted if found.get(name) != wanted[name]] or ["settings"]
        if changed == ["sources"]:
            then = {source["path"]: source for source in found.get("sources", [])}
            now = {source["path"]: source for source in wanted["sources"]}
            different = sorted(path for path in {*then, *now} if then.get(path) != now.get(path))
            changed = [f"sources ({different[0]}{' and others' if len(different) > 1 else ''})"]
        return (
            f"{self.out}: expected a new folder or a conversion of the same schema and sources, found {what} "
            f"with other {', '.join(changed)}; --overwrite removes it"
        )


def _is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder's or lies anywhere under it, links followed."""
    real, above = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, above]) == above
