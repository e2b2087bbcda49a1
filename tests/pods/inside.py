"""Process 1 of a pod: makes the container's root, starts its command, passes SIGTERM on, ends with its status.

`python -m tests.pods.inside SPEC`, SPEC being `Inside` as JSON, makes the namespaces, starts it there, and ends as it
ends. It begins when it reads a line from standard input, since the pod's network is made from outside meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pods import linux

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# What programs of this machine need of its /etc; the rest of /etc is the pod's own.
_ETC = ("ld.so.cache", "localtime", "services", "protocols", "mime.types", "ssl", "alternatives", "os-release")
NOT_STARTED = 127


@dataclass(frozen=True)
class Inside:
    """What process 1 has to make.

    Attributes:
      root: an empty folder for the container's root.
      host: host name.
      environment, argv, uid, gid, groups: of the container's process.
      shown: folders of this machine that lie at the same place in the container, read-only: programs.
      binds: (place on this machine, place in the container, whether read-only).
      files: texts of files of the pod's own, by path.
      memory_group: file by which a process joins the container's memory group; None: there is none.
    """

    root: str
    host: str
    argv: list[str]
    environment: dict[str, str]
    uid: int
    gid: int
    groups: list[int]
    shown: list[str]
    binds: list[tuple[str, str, bool]]
    files: dict[str, str]
    read_only_root: bool
    memory_group: str | None


def main(spec: Inside) -> int:
    """Outside: waits for process 1."""
    linux.unshare(linux.NEW_NETWORK | linux.NEW_MOUNTS | linux.NEW_HOST_NAME | linux.NEW_IPC | linux.NEW_PROCESSES)
    first = os.fork()
    if first == 0:
        linux.die_with_parent()
        os._exit(process_one(spec))
    os.close(0)
    return _code(os.waitpid(first, 0)[1])


def process_one(spec: Inside) -> int:
    """Until the container's command ends."""
    if spec.memory_group is not None:
        Path(spec.memory_group).write_text("0")
    socket.sethostname(spec.host)
    sys.stdin.readline()
    make_root(spec)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    child = os.fork()
    if child == 0:
        run(spec)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(child, number))
    while True:  # as `tini` does in the image: orphans are its children, too
        ended, status = os.wait()
        if ended == child:
            return _code(status)


def make_root(spec: Inside) -> None:
    """A root of its own: this machine's programs, the pod's volumes, nothing else."""
    root = Path(spec.root)
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
    linux.mount("none", spec.root, "tmpfs", linux.NO_DEVICES, "mode=755")
    for link in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{link}"):
            (root / link).symlink_to(os.readlink(f"/{link}"))
        elif os.path.isdir(f"/{link}"):
            bind(root, f"/{link}", f"/{link}", True)
    for place in spec.shown:
        bind(root, place, place, True)
    for folder in ("dev", "proc", "sys", "run", "var", "etc", "root"):
        (root / folder).mkdir(exist_ok=True)
    (root / "tmp").mkdir(mode=0o1777, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in _ETC:
        if os.path.exists(f"/etc/{name}"):
            bind(root, os.path.realpath(f"/etc/{name}"), f"/etc/{name}", True)
    make_devices(root)
    linux.mount("proc", str(root / "proc"), "proc")
    linux.mount("/sys", str(root / "sys"), flags=linux.BIND | linux.RECURSIVE)
    for path, text in spec.files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for source, target, read_only in spec.binds:
        bind(root, source, target, read_only)
    if spec.read_only_root:
        linux.mount("none", spec.root, flags=linux.REMOUNT | linux.BIND | linux.READ_ONLY | linux.NO_DEVICES)
    os.chdir(spec.root)
    linux.mount(spec.root, "/", flags=linux.MOVE)
    os.chroot(".")
    os.chdir("/tmp")


def make_devices(root: Path) -> None:
    """Fills the folder /dev of a root."""
    for name in _DEVICES:
        bind(root, f"/dev/{name}", f"/dev/{name}", False)
    (root / "dev" / "shm").mkdir()
    linux.mount("none", str(root / "dev" / "shm"), "tmpfs", linux.NO_DEVICES, "size=64m,mode=1777")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (root / "dev" / name).symlink_to(target)


def run(spec: Inside) -> None:
    """Becomes the container's command."""
    try:
        os.setgroups(spec.groups)
        linux.no_privileges()
        os.setgid(spec.gid)
        os.setuid(spec.uid)
        os.umask(0o022)
        os.execvpe(spec.argv[0], spec.argv, spec.environment)
    except OSError as error:
        os.write(2, f"{spec.argv[0]}: cannot be started: {error}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _code(status: int) -> int:
    """As a shell has it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def bind(root: Path, source: str, target: str, read_only: bool) -> None:
    """Shows a file or folder of this machine at a place of a root, which is made where it is missing."""
    place = root / target.lstrip("/")
    if os.path.isdir(source):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    linux.mount(source, str(place), flags=linux.BIND | (linux.RECURSIVE if os.path.isdir(source) else 0))
    if read_only:
        flags = linux.REMOUNT | linux.BIND | linux.READ_ONLY | linux.NO_SET_UID
        linux.mount("none", str(place), flags=flags)


def spec_of(text: str) -> Inside:
    told: dict[str, Any] = json.loads(text)
    return Inside(**told)


if __name__ == "__main__":
    sys.exit(main(spec_of(Path(sys.argv[1]).read_text(encoding="utf-8"))))
