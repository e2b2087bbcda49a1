"""Two processes with four threads each that add to the same rows of one PS, and what the rows then hold."""

from __future__ import annotations

import subprocess

from tests.ps_cluster.ps_processes import START_SECONDS, start

CLIENTS = 2


def added(ps: str, workers: list[str], side: str, times: int, seconds: float = START_SECONDS) -> tuple[float, float]:
    """The least and the largest number in the rows, after each of eight threads has added 1 `times` times.

    side: `ours` or `stock`. seconds: most that it takes.
    """
    clients = [
        start("-m", "tests.ps_cluster.add_client", ps, address, str(rank), side, str(times))
        for rank, address in enumerate(workers[:CLIENTS])
    ]
    try:
        _told(clients, "imported")
        for client in clients:  # one connects after the other, as workers do
            go(client)
            _told([client], "connected")
        for client in clients:
            go(client)
        _told(clients, "added")
        told = []
        for client in clients:
            out, err = client.communicate("go\n", timeout=seconds)
            assert client.returncode == 0, err
            told.append(tuple(float(one) for one in out.split()))
        assert told[0] == told[1], told
        least, most = told[0]
        return least, most
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def _told(clients: list[subprocess.Popen[str]], state: str) -> None:
    for client in clients:
        assert client.stdout.readline() == f"{state}\n", client.stderr.read()


def go(client: subprocess.Popen[str]) -> None:
    """Lets a client go on that waits."""
    client.stdin.write("go\n")
    client.stdin.flush()
