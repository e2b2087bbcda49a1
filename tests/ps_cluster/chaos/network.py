"""Hosts of a small network on one machine, whose links can be cut: a network namespace each, on one bridge."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Host:
    """A host: `prefix` before a command line runs it there."""

    name: str
    address: str

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Takes the host's link away; connections are not told."""
        _ip("link", "set", f"{self.name}-b", "down")

    def mend(self) -> None:
        """The link is back."""
        _ip("link", "set", f"{self.name}-b", "up")


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """So many hosts that reach each other; skips the test where namespaces may not be made."""
    number = os.getpid() % 250
    bridge = f"pc{number}"
    made: list[Host] = []
    if os.geteuid() != 0 or subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=False).returncode:
        pytest.skip("needs the right to make network namespaces")
    try:
        _ip("link", "set", bridge, "up")
        for index in range(count):
            host = Host(f"{bridge}h{index}", f"10.{77 + number % 100}.{number}.{index + 1}")
            _ip("netns", "add", host.name)
            made.append(host)
            # A host's name is its address there, as Horovod looks it up.
            (names := Path("/etc/netns", host.name, "hosts")).parent.mkdir(parents=True)
            names.write_text(f"127.0.0.1 localhost\n{host.address} {socket.gethostname()}\n")
            _ip("link", "add", f"{host.name}-b", "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _ip("link", "set", f"{host.name}-b", "master", bridge, "up")
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "eth0", "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
        yield made
    finally:
        for host in made:
            subprocess.run(["ip", "netns", "delete", host.name], check=False)
            shutil.rmtree(Path("/etc/netns", host.name), ignore_errors=True)
        subprocess.run(["ip", "link", "delete", bridge], check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
