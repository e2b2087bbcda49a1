"""The work folder beside the output: what a killed conversion leaves for the next one to continue with."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from data.convert.merge import FileInfo, sha256_of
from data.convert.runs import write_whole
from data.errors import DataError
from data.paths import MANIFEST

_PLAN = "plan.json"


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
        self.folder = folder or f"{out}.work"
        self.runs = os.path.join(self.folder, "runs")
        self.files = os.path.join(self.folder, "files")

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
            shutil.rmtree(self.folder, ignore_errors=True)
            return done
        begun = self._read(os.path.join(self.folder, _PLAN))
        if begun is not None and begun != identity:
            raise DataError(self._another("an unfinished conversion", begun, identity))
        if begun is None and os.path.isdir(self.out) and os.listdir(self.out):
            raise DataError(f"{self.out}: expected a new or empty folder, found files in it that are no conversion's")
        if begun is None and os.path.isdir(self.folder) and os.listdir(self.folder):
            shutil.rmtree(self.folder)  # killed before it had begun
        for folder in (self.out, self.runs, self.files):
            os.makedirs(folder, exist_ok=True)
        for name in os.listdir(self.out):
            if name.endswith(".partial"):  # of a killed writer
                os.unlink(os.path.join(self.out, name))
        if begun is None:
            write_whole(os.path.join(self.folder, _PLAN), json.dumps(identity))
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
        shutil.rmtree(self.folder)

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if not os.path.isdir(self.out):
            return
        # The manifest first: what is left without it is no finished conversion.
        names = sorted(os.listdir(self.out), key=lambda name: name != MANIFEST)
        strange = [name for name in names if not (name == MANIFEST or name.startswith("part-"))]
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
