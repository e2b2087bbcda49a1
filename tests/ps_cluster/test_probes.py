"""Idle connections of a process are probed, whoever opened them; nothing else is touched."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from ps_cluster.roles.probes import probe_now


@pytest.fixture
def sockets() -> Iterator[dict[str, socket.socket]]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        server = stack.enter_context(listener.accept()[0])
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
        own = stack.enter_context(socket.create_connection(listener.getsockname()))
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        local, other = socket.socketpair()
        datagrams = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        datagrams.connect(("127.0.0.1", 9))
        stack.enter_context(local)
        stack.enter_context(other)
        found = {"client": client, "server": server, "own": own, "listener": listener}
        yield {**found, "local": local, "datagrams": datagrams}


def probed(connection: socket.socket) -> int:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_connections_without_a_limit_of_their_own_are_probed_once(sockets: dict[str, socket.socket]) -> None:
    idle_by_default = sockets["own"].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    assert probe_now() >= 1
    assert {name for name, one in sockets.items() if probed(one)} == {"client", "own"}
    assert sockets["client"].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20
    assert sockets["own"].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle_by_default
    assert probe_now() == 0


def test_the_connections_stay_as_they_were(sockets: dict[str, socket.socket]) -> None:
    probe_now()
    sockets["client"].sendall(b"a question")
    assert sockets["server"].recv(100) == b"a question"
    sockets["server"].sendall(b"an answer")
    assert sockets["client"].recv(100) == b"an answer"
    assert sockets["client"].getblocking()
