"""One command in a tree, from start to end, whatever ends it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from ps_cluster.errors import UserError
from tests.k8s.chroot_image.dockerfile import Config
from tests.k8s.chroot_image.inside import Inside
from tests.k8s.chroot_image.mirrors import SHOWN, Mirrors

ROOT = Path(__file__).resolve().parents[3]


def run(
    tree: Path,
    argv: Sequence[str],
    config: Config,
    mirrors: Mirrors,
    binds: Sequence[tuple[Path, str]] = (),
    privileged: bool = False,
) -> int:
    """Exit code of the command; when this ends by an exception, the command and all that it started are gone.

    binds: (folder of this machine, place in the tree), writable.
    """
    uid, gid = user(tree, config.user)
    shown = [(os.path.realpath(path), SHOWN + path, True) for path in sorted(mirrors.shown)]
    spec = Inside(
        root=str(tree.resolve()),
        argv=list(argv),
        environment={"HOME": _home(tree, uid), **mirrors.variables, **config.environment},
        folder=config.folder,
        uid=uid,
        gid=gid,
        privileged=privileged,
        binds=shown + [(str(source.resolve()), target, False) for source, target in binds],
        files=mirrors.files,
    )
    with tempfile.TemporaryDirectory(prefix="chroot-image-") as folder:
        file = Path(folder, "spec.json")
        file.write_text(json.dumps(asdict(spec)), encoding="utf-8")
        command = [sys.executable, "-m", "tests.k8s.chroot_image.inside", str(file)]
        # A session of its own: Ctrl-C reaches this process only, which then ends it all.
        with ended(subprocess.Popen(command, cwd=ROOT, start_new_session=True)) as process:
            code = process.wait()
    with contextlib.suppress(OSError):
        (tree / SHOWN.lstrip("/")).rmdir()
    return code


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Kills the process, and with it what lives in its namespace, if it runs still when the block ends."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def user(tree: Path, words: str) -> tuple[int, int]:
    """Numbers of USER's `user[:group]`; a group that is not given is the user's own, else 0."""
    name, _, group = words.partition(":")
    uid, own_group = _look_up(tree / "etc" / "passwd", name)
    return uid, _look_up(tree / "etc" / "group", group)[0] if group else own_group


def _look_up(file: Path, name: str) -> tuple[int, int]:
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.split(":")
        if name in (fields[0], fields[2]):
            return int(fields[2]), int(fields[3]) if fields[3].isdigit() else 0
    if name.isdigit():
        return int(name), 0
    raise UserError(f"USER: expected a number or a name of the image's /etc/{file.name}, found {name}")


def _home(tree: Path, uid: int) -> str:
    for line in (tree / "etc" / "passwd").read_text(encoding="utf-8").splitlines():
        if line.split(":")[2] == str(uid):
            return line.split(":")[5]
    return "/"
