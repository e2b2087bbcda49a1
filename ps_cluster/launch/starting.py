"""The processes of a local cluster: their places, their command lines, their logs."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ps_cluster.job.membership import Membership, Role
from ps_cluster.launch.output import Output
from ps_cluster.launch.processes import Processes

if TYPE_CHECKING:
    from ps_cluster.job.resolve import JobFile


def memberships(addresses: Sequence[str], ps: int, workers: int) -> list[Membership]:
    """Places of `ps` PS and `workers` workers at these addresses; the last one is that of the rendezvous."""
    ps_addresses = tuple(addresses[:ps])
    worker_addresses = tuple(addresses[ps : ps + workers])
    rendezvous = addresses[ps + workers]
    roles: list[tuple[Role, int]] = [("ps", i) for i in range(ps)]
    roles += [("worker", i) for i in range(workers)]
    return [Membership(role, i, ps_addresses, worker_addresses, rendezvous) for role, i in roles]


def name_of(member: Membership) -> str:
    """What a process is called: `ps 0`, `worker 1`."""
    return f"{member.role} {member.index}"


@dataclass
class Starter:
    """Starts members of the cluster, for the first time or again.

    report: file for worker 0's report. command: command line of a process, without the flags added here. resume: the
    run goes on from a checkpoint from its first start on.
    """

    processes: Processes
    job_file: JobFile
    output: Output
    report: Path | None
    command: Callable[[Role, int, str], list[str]]
    resume: bool = False

    def start(self, member: Membership, restart: int = 0) -> None:
        """Starts a process with a log of its own. restart: which restart of the run this is; 0: its first start."""
        line = self.command(member.role, member.index, str(self.job_file.path))
        if member.role == "worker" and (restart or self.resume):
            line = [*line, "--resume"]
        if member.role == "worker" and member.index == 0:
            line = [*line, "--events", str(self.output.events)]
            if self.report is not None:
                line += ["--report", str(self.report)]
        environment = {**os.environ, "TF_CONFIG": member.tf_config(), **_python_environment()}
        log = f"{member.role}-{member.index}{f'.restart-{restart}' if restart else ''}.log"
        self.processes.start(name_of(member), line, environment, self.output.logs / log)


def _python_environment() -> dict[str, str]:
    """Settings under which started interpreters import this very package, and write at once.

    Not whatever else lies in the current folder: `data` and `models` are names that users' folders have.
    """
    root = str(Path(__file__).resolve().parents[2])
    if root in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):  # found without being told
        return {"PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    searched = os.pathsep.join([root, *(path for path in paths if path and path != root)])
    return {"PYTHONPATH": searched, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
