"""The memory limit of a container: a memory group of the kernel's where one may be made, else somebody who watches."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Protocol

_ROOT = Path("/sys/fs/cgroup")
_WATCH_SECONDS = 0.5


class Limit(Protocol):
    """Of one container. joined_by: the file by which its first process joins; None: by nothing."""

    joined_by: str | None

    def look(self, first_process: int) -> None:
        """Called often while the container runs."""

    def out_of_memory(self) -> bool:
        """Whether a process of it was killed because it wanted more."""

    def remove(self) -> None:
        """When no process is in it."""


class _Group:
    def __init__(self, folder: Path):
        self._folder = folder
        self.joined_by: str | None = str(folder / "cgroup.procs")

    def look(self, first_process: int) -> None:
        """The kernel sees to it."""

    def out_of_memory(self) -> bool:
        name = "memory.oom_control" if (self._folder / "memory.oom_control").exists() else "memory.events"
        with contextlib.suppress(OSError):
            lines = (self._folder / name).read_text().splitlines()
            return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)
        return False

    def remove(self) -> None:
        remove_group(self._folder)


class _Watched:
    joined_by: str | None = None

    def __init__(self, most_bytes: int):
        self._most, self._over, self._next = most_bytes, False, 0.0

    def look(self, first_process: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _WATCH_SECONDS
        pids = processes_with(first_process)
        if sum(map(_resident_bytes, pids)) > self._most:
            self._over = True
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def out_of_memory(self) -> bool:
        return self._over

    def remove(self) -> None:
        """There is nothing to remove."""


class Memory:
    """Makes limits. `how` says by what they are kept."""

    def __init__(self, run: str):
        """run: name of the run's own folder of groups."""
        above = _own_group()
        self.folder = above / f"ps-cluster-pods-{run}" if above is not None else None
        self.how = "no memory group may be made here: resident memory is looked at twice a second"
        if self.folder is not None:
            self.how = f"memory groups in {self.folder}"

    def limit(self, name: str, most_bytes: int) -> Limit:
        """Of a container of that name."""
        if self.folder is None:
            return _Watched(most_bytes)
        group = self.folder / name
        group.mkdir(parents=True)
        if (group / "memory.limit_in_bytes").exists():
            (group / "memory.limit_in_bytes").write_text(str(most_bytes))
            with contextlib.suppress(OSError):  # where swap is not accounted for
                (group / "memory.memsw.limit_in_bytes").write_text(str(most_bytes))
        else:
            (self.folder / "cgroup.subtree_control").write_text("+memory")
            (group / "memory.max").write_text(str(most_bytes))
            with contextlib.suppress(OSError):
                (group / "memory.swap.max").write_text("0")
            (group / "memory.oom.group").write_text("1")
        return _Group(group)

    def close(self) -> None:
        if self.folder is not None:
            remove_group(self.folder)


def remove_group(folder: Path) -> None:
    """A group and those in it; a process that was just killed may still be in one."""
    if not folder.exists():
        return
    for one in sorted(folder.iterdir()):
        if one.is_dir():
            remove_group(one)
    deadline = time.monotonic() + 5
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def processes_with(first_process: int) -> list[int]:
    """All processes of the container whose process 1 this is."""
    found = []
    try:
        mine = os.readlink(f"/proc/{first_process}/ns/pid")
    except OSError:
        return []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") == mine:
                    found.append(int(entry))
    return found


def _own_group() -> Path | None:
    """The group in which those of the pods may be made."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return _usable(_ROOT / "memory" / path.lstrip("/"))
        if controllers == "" and (_ROOT / "cgroup.controllers").exists():
            # Version 2: a group that hands memory on to others has no processes of its own, so it is not this one.
            group = (_ROOT / path.lstrip("/")).parent if path != "/" else _ROOT
            with contextlib.suppress(OSError):
                if "memory" in (group / "cgroup.subtree_control").read_text().split():
                    return _usable(group)
    return None


def _usable(group: Path) -> Path | None:
    trial = group / f"ps-cluster-pods-trial-{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError:
        return None
    return group


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
