"""Runs one command in a tree: namespaces of its own for mounts and processes, this machine's network.

`python -m tests.k8s.chroot_image.inside SPEC`, SPEC being `Inside` as JSON, ends as the command ends. When it is
killed, the kernel kills the command and all that it has started; mounts are seen by none but them.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.k8s.chroot_image.mirrors import SHOWN
from tests.pods import linux
from tests.pods.inside import bind, make_devices

HOST = "image"
NOT_STARTED = 127


@dataclass(frozen=True)
class Inside:
    """What to run, and where.

    Attributes:
      root: the tree.
      privileged: a build's command may do all that root may; else it runs as a pod's container does: without
        capabilities, the tree read-only, a /tmp of its own.
      binds: (place on this machine, place in the tree, whether read-only).
      files: texts of files below `mirrors.SHOWN`, by path.
    """

    root: str
    argv: list[str]
    environment: dict[str, str]
    folder: str
    uid: int
    gid: int
    privileged: bool
    binds: list[tuple[str, str, bool]]
    files: dict[str, str]


def main(spec: Inside) -> int:
    linux.die_with_parent()
    linux.unshare(linux.NEW_MOUNTS | linux.NEW_HOST_NAME | linux.NEW_IPC | linux.NEW_PROCESSES)
    first = os.fork()
    if first == 0:
        try:
            _become(spec)
        except OSError as error:
            os.write(2, f"{spec.argv[0]}: cannot be started: {error}\n".encode())
        os._exit(NOT_STARTED)
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    return code if code >= 0 else 128 - code


def _become(spec: Inside) -> None:
    """Process 1 of the namespace: the command itself, as in a container."""
    socket.sethostname(HOST)
    _make_root(spec)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    if not spec.privileged:
        os.setgroups([])
        linux.no_privileges()
        os.setgid(spec.gid)
        os.setuid(spec.uid)
    linux.die_with_parent()  # after the user is changed, which undoes it
    os.umask(0o022)
    os.chdir(spec.folder)
    os.execvpe(spec.argv[0], spec.argv, spec.environment)


def _make_root(spec: Inside) -> None:
    root = Path(spec.root)
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
    linux.mount(spec.root, spec.root, flags=linux.BIND)
    shown = root / SHOWN.lstrip("/")
    shown.mkdir(parents=True, exist_ok=True)
    linux.mount("none", str(shown), "tmpfs", linux.NO_DEVICES, "mode=755")
    hosts = f"127.0.0.1 localhost {HOST}\n::1 localhost\n"
    for path, text in {f"{SHOWN}/etc/hosts": hosts, **spec.files}.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    linux.mount("none", str(root / "dev"), "tmpfs", linux.NO_SET_UID, "mode=755")
    make_devices(root)
    linux.mount("proc", str(root / "proc"), "proc")
    bind(root, "/sys", "/sys", True)
    bind(root, os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf", True)
    bind(root, str(shown / "etc" / "hosts"), "/etc/hosts", True)
    if not spec.privileged:
        linux.mount("none", str(root / "tmp"), "tmpfs", linux.NO_DEVICES | linux.NO_SET_UID, "mode=1777")
    for source, target, read_only in spec.binds:
        bind(root, source, target, read_only)
    os.chdir(spec.root)
    if not spec.privileged:
        linux.mount("none", ".", flags=linux.REMOUNT | linux.BIND | linux.READ_ONLY | linux.NO_DEVICES)
    linux.mount(".", "/", flags=linux.MOVE)
    os.chroot(".")


if __name__ == "__main__":
    sys.exit(main(Inside(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
