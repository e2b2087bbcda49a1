"""A cluster started by hand, one process a host, each started again when it ends badly, as a controller does it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ps_cluster import small_cluster
from tests.ps_cluster.chaos.network import Host

MISTAKE = 2
_AGAIN_AFTER_SECONDS = 1.0
LIMIT_SECONDS = 600


@dataclass
class Member:
    """One process of the cluster. starts: how often it was started; codes: how it ended each time."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    codes: list[int] = field(default_factory=list)
    again_at: float = 0.0

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def look(self) -> None:
        """Starts it again when it has ended badly; not after a mistake of the user's."""
        if self.process is not None and self.process.poll() is not None:
            self.codes.append(self.process.returncode)
            self.process, self.again_at = None, time.monotonic() + _AGAIN_AFTER_SECONDS
        if self.process is None and not self.ended and time.monotonic() > self.again_at:
            self.start()

    @property
    def ended(self) -> bool:
        return bool(self.codes) and self.codes[-1] in (0, MISTAKE)


@dataclass
class Cluster:
    """Processes that are kept alive while something is waited for."""

    folder: Path
    members: list[Member]

    @property
    def workers(self) -> list[Member]:
        return [member for member in self.members if member.name.startswith("worker")]

    def until(self, condition: Callable[[], object]) -> None:
        """Keeps the cluster alive until something has happened."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not condition():
            for member in self.members:
                member.look()
            assert time.monotonic() < deadline, f"it never happened\n{self.logs()}"
            time.sleep(0.1)

    def run_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end)

    def finish(self) -> None:
        """Waits for the workers' end."""
        self.until(lambda: all(worker.ended for worker in self.workers))
        assert [worker.codes[-1] for worker in self.workers] == [0] * len(self.workers), self.logs()

    def restarts(self) -> int:
        """Ends that a process was started again after."""
        return sum(code not in (0, MISTAKE) for member in self.members for code in member.codes)

    def events(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [event for event in map(json.loads, whole.splitlines()) if event["event"] == kind]

    def told(self, words: str) -> bool:
        """Whether a process has said this."""
        return any(words in member.log.read_text() for member in self.members)

    def logs(self) -> str:
        return "\n".join(
            f"== {member.name} {member.codes}\n{member.log.read_text()[-3000:]}" for member in self.members
        )


@contextlib.contextmanager
def cluster(folder: Path, description: dict[str, Any], hosts: Sequence[Host]) -> Iterator[Cluster]:
    """The job's PS and workers, each on a host of its own; its samples lie in `folder`."""
    (folder / "job.yaml").write_text(json.dumps(description, indent=1))
    num_ps, num_workers = description["cluster"]["ps"], description["cluster"]["workers"]
    ps, workers = hosts[:num_ps], hosts[num_ps : num_ps + num_workers]
    place = ["--ps", ",".join(f"{host.address}:2222" for host in ps)]
    place += ["--workers", ",".join(f"{host.address}:2222" for host in workers)]
    place += ["--rendezvous", f"{workers[0].address}:2223"]
    members = []
    for role, of_role in (("ps", ps), ("worker", workers)):
        for index, host in enumerate(of_role):
            command = [
                *host.prefix,
                *small_cluster.COMMAND,
                role,
                str(folder / "job.yaml"),
                *place,
                "--index",
                str(index),
            ]
            if role == "worker":
                command.append("--resume")
                command += ["--events", str(folder / "events.jsonl")] if index == 0 else []
            log = folder / f"{role}-{index}.log"
            members.append(Member(f"{role} {index}", command, small_cluster.environment(folder), log))
    try:
        for member in members:
            member.start()
        yield Cluster(folder, members)
    finally:
        for member in members:
            if member.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(member.process.pid, signal.SIGKILL)
                member.process.wait()
