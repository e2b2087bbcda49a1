"""Started processes: each in a session of its own with a log file, followed and stopped together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ps_cluster.errors import RunError
from ps_cluster.launch.pdeathsig import PARENT_VARIABLE

_POLL_SECONDS = 0.02
_KILLED_WITHIN_SECONDS = 2.0


@dataclass(frozen=True)
class Ended:
    """A process that has ended; `status` is negative for a signal, as in `subprocess`."""

    name: str
    status: int
    log: Path


@dataclass
class _Member:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Processes:
    """Processes started together; use as a context manager, whose end kills what still runs.

    A process that has ended stays unreaped until it is stopped: so its number, which is also that of its
    process group, cannot pass to a stranger before the group is killed.
    """

    def __init__(self) -> None:
        self._members: list[_Member] = []
        self._ended: dict[str, Ended] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop([member.name for member in self._members], grace_seconds=0)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start `command`; both its outputs go to `log`, which must not exist yet. Only from the main thread.

        Raises:
          RunError: the log cannot be made or the command not be started.
        """
        try:
            with log.open("xb") as out:
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env={**environment, PARENT_VARIABLE: str(os.getpid())},
                    start_new_session=True,
                )
        except OSError as error:
            raise RunError(f"cannot start {name}: {error.filename or command[0]}: {error.strerror}") from None
        self._ended.pop(name, None)  # an earlier one of that name, which was stopped
        self._members.append(_Member(name, process, log))

    def ended(self) -> list[Ended]:
        """All processes that have ended by now, in the order in which that was noticed."""
        for member in self._members:
            if member.name not in self._ended:
                # WNOWAIT: look without reaping
                info = os.waitid(os.P_PID, member.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if info is not None:
                    status = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status
                    self._ended[member.name] = Ended(member.name, status, member.log)
        return list(self._ended.values())

    def terminate(self, names: Sequence[str], grace_seconds: float, hurry: Callable[[], bool] = lambda: False) -> None:
        """SIGTERM to the named processes; returns when all have ended, or the grace has. `hurry`: as of `stop`."""
        members = [member for member in self._members if member.name in names]
        for member in members:
            if not self._has_ended(member):
                # A process that somebody suspended has to wake to notice.
                for signum in (signal.SIGTERM, signal.SIGCONT):
                    os.kill(member.process.pid, signum)
        self._wait(members, grace_seconds, hurry)

    def stop(self, names: Sequence[str], grace_seconds: float, hurry: Callable[[], bool] = lambda: False) -> list[str]:
        """SIGTERM to the named processes, after the grace SIGKILL to what is left of their groups.

        Args:
          hurry: ends the grace early once it is true.

        Returns:
          One line for each process that even SIGKILL did not end within 2 seconds (it hangs in the kernel).
        """
        members = [member for member in self._members if member.name in names]
        if grace_seconds > 0:
            self.terminate(names, grace_seconds, hurry)
        for member in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(member.process.pid, signal.SIGKILL)
        self._wait(members, _KILLED_WITHIN_SECONDS, lambda: False)
        left = []
        for member in members:
            if self._has_ended(member):
                member.process.wait()
                self._members.remove(member)
            else:
                left.append(f"{member.name} (process {member.process.pid}) does not end, not even by SIGKILL")
        return left

    def _has_ended(self, member: _Member) -> bool:
        return any(ended.name == member.name for ended in self.ended())

    def _wait(self, members: Sequence[_Member], seconds: float, hurry: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not all(self._has_ended(member) for member in members):
            if hurry() or time.monotonic() >= deadline:
                return
            time.sleep(_POLL_SECONDS)
