"""Where the processes of a job serve their figures: chosen by each, noted in the output folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ps_cluster.errors import UserError
from ps_cluster.job.membership import Membership

FOLDER = "metrics"
"""In the output folder: one file a process."""
_LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Endpoint:
    """A process and its address, "host:port"; `host` is the machine's name, where `pid` means something."""

    role: str
    index: int
    address: str
    pid: int
    host: str

    @property
    def name(self) -> str:
        """`worker 0`"""
        return f"{self.role} {self.index}"


def listening_place(membership: Membership, first_port: int | None) -> tuple[str, int]:
    """Interface and port to listen on; port 0: any free one.

    A process whose own address is on the loopback interface is served there only, else on all interfaces. Processes of
    a job that share a host take the ports from `first_port` on: PS first, then workers.
    """
    members = [*membership.ps, *membership.workers]
    mine = membership.index + (len(membership.ps) if membership.role == "worker" else 0)
    host = members[mine].rpartition(":")[0]
    before = sum(other.rpartition(":")[0] == host for other in members[:mine])
    return "127.0.0.1" if host in _LOOPBACK else "", 0 if first_port is None else first_port + before


def note_endpoint(output: str, membership: Membership, port: int) -> Endpoint:
    """Writes down where this process serves; returns it."""
    host = membership.address.rpartition(":")[0]
    address = f"{'127.0.0.1' if host in _LOOPBACK else host}:{port}"
    endpoint = Endpoint(membership.role, membership.index, address, os.getpid(), socket.gethostname())
    folder = Path(output, FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{membership.role}-{membership.index}.{os.getpid()}"
    beside.write_text(json.dumps(asdict(endpoint)) + "\n", encoding="utf-8")
    beside.replace(folder / f"{membership.role}-{membership.index}.json")
    return endpoint


def endpoints_of(output: str) -> list[Endpoint]:
    """Of all processes that have noted theirs, PS first."""
    found = []
    for path in Path(output, FOLDER).glob("*-*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):  # being removed, or nothing of ours
            found.append(Endpoint(**json.loads(path.read_text(encoding="utf-8"))))
    return _in_order(found)


def endpoints_at(addresses: Sequence[str]) -> list[Endpoint]:
    """Of processes whose role their answers will tell. Raises UserError for what is no HOST:PORT."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not (port.isdecimal() and 0 < int(port) < 65_536):
            raise UserError(f"--address: expected HOST:PORT with commas between them, found {address!r}")
    return [Endpoint("process", index, address, 0, "") for index, address in enumerate(addresses)]


def _in_order(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    return sorted(endpoints, key=lambda one: (one.role != "ps", one.index))
