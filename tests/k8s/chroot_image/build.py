"""Builds the last stage of a Dockerfile, and those that it needs, each in a folder."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ps_cluster.errors import RunError, UserError
from ps_cluster.setup.kept import wheels_folder
from tests.k8s.chroot_image import debian
from tests.k8s.chroot_image.container import run
from tests.k8s.chroot_image.copying import copy
from tests.k8s.chroot_image.dockerfile import Config, Copy, Folder, Run, Stage, find, read
from tests.k8s.chroot_image.ignored import context, read_rules
from tests.k8s.chroot_image.mirrors import Mirrors


@dataclass(frozen=True)
class Image:
    """A built image: `tree` and `config.json` in a folder."""

    tree: Path
    config: Config


def open_image(folder: Path) -> Image:
    """UserError when `build` has left none there."""
    try:
        told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{folder}: expected an image that build has made: {error.strerror}") from None
    entry, command = tuple(told.pop("entry")), tuple(told.pop("command"))
    return Image(folder / "tree", Config(**told, entry=entry, command=command))


def build(file: Path, root: Path, folder: Path, build_args: Mapping[str, str], mirrors: Mirrors) -> Image:
    """Makes `folder`, or replaces the image in it once the new one is whole. root: the context's folder.

    Raises UserError for what cannot be carried out, RunError when a command fails.
    """
    stages = read(file.read_text(encoding="utf-8"), str(file), build_args)
    _check_bases(stages, file)
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".building.*"):
        shutil.rmtree(left)
    work = Path(tempfile.mkdtemp(prefix=".building.", dir=folder))
    try:
        tree = _Builder(stages, file, root, work, mirrors).stage(len(stages) - 1)
        config = stages[-1].config
        (folder / "config.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "tree", ignore_errors=True)
        tree.rename(folder / "tree")
        (work / "config.json").write_text(json.dumps(asdict(config), indent=1), encoding="utf-8")
        (work / "config.json").rename(folder / "config.json")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return open_image(folder)


def _check_bases(stages: list[Stage], file: Path) -> None:
    for number, stage in enumerate(stages):
        if find(stages[:number], stage.base) is None and not debian.is_debian(stage.base):
            known = f"an image of Debian {debian.NUMBER} or an earlier stage"
            raise UserError(f"{file}:{stage.line}: expected {known}, found {stage.base}")


class _Builder:
    def __init__(self, stages: list[Stage], file: Path, root: Path, work: Path, mirrors: Mirrors):
        self._stages, self._file, self._root, self._work, self._mirrors = stages, file, root, work, mirrors
        self._trees: dict[int, Path] = {}
        ignore = file.with_name(f"{file.name}.dockerignore")
        ignore = ignore if ignore.exists() else root / ".dockerignore"
        self._rules = read_rules(ignore.read_text(encoding="utf-8") if ignore.exists() else "")

    def stage(self, number: int) -> Path:
        """Its tree, made now unless it is there."""
        if number not in self._trees:
            stage = self._stages[number]
            earlier = find(self._stages[:number], stage.base)
            base = debian.base_tree(self._mirrors.debian) if earlier is None else self.stage(earlier)
            tree = self._work / f"stage-{number}"
            self._says(stage.line, f"FROM {stage.base}")
            tree.mkdir(mode=0o755)
            subprocess.run(["cp", "-a", "--reflink=auto", f"{base}/.", str(tree)], check=True)
            for step in stage.steps:
                self._do(step, tree, number)
            self._trees[number] = tree
        return self._trees[number]

    def _do(self, step: Run | Copy | Folder, tree: Path, number: int) -> None:
        where = f"{self._file}:{step.line}"
        if isinstance(step, Run):
            self._says(step.line, f"RUN {step.argv[2] if step.argv[0] == '/bin/sh' else shlex.join(step.argv)}")
            binds = [(_kept(target), target) for target in step.caches]
            began = time.monotonic()
            code = run(tree, step.argv, step.config, self._mirrors, binds, privileged=True)
            if code != 0:
                raise RunError(f"{where}: RUN ended with exit code {code}")
            self._says(step.line, f"done in {time.monotonic() - began:.0f} s")
        elif isinstance(step, Copy):
            self._says(step.line, f"COPY {' '.join(step.sources)} {step.target}")
            root, paths = self._root, None
            if step.stage is None:
                paths = list(context(self._root, self._rules))
            else:
                earlier = find(self._stages[:number], step.stage)
                assert earlier is not None  # the reader has looked
                root = self.stage(earlier)
            copy(root, paths, step.sources, tree, step.target, where)
        else:
            tree.joinpath(*Path(step.path).parts[1:]).mkdir(parents=True, exist_ok=True)

    def _says(self, line: int, words: str) -> None:
        print(f"{self._file}:{line}: {words}", flush=True)


def _kept(target: str) -> Path:
    """The folder of this machine that lies at a cache's place, with the wheels that set-up has kept already."""
    folder = debian.cache() / "image-cache" / target.strip("/")
    folder.mkdir(parents=True, exist_ok=True)
    if Path(target).name == ".cache":
        wheels = folder / wheels_folder().parent.name / wheels_folder().name
        wheels.mkdir(parents=True, exist_ok=True)
        for kept in wheels_folder().glob("[!.]*"):
            if not (wheels / kept.name).exists():
                part = Path(tempfile.mkdtemp(prefix=f".{kept.name}.", suffix=".part", dir=wheels))
                shutil.copytree(kept, part, dirs_exist_ok=True)
                part.chmod(0o755)
                part.rename(wheels / kept.name)
    return folder
