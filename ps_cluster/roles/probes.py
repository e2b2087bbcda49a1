"""Connections that the other end has given up are found while a process waits for an answer on one."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

_IDLE_SECONDS = 20
_MOST_PROBES = 127  # the kernel's limit
_LOOK_SECONDS = 5.0


def probe_connections() -> None:
    """Has the kernel probe the idle TCP connections of this process from now on, those of libraries too.

    gRPC's servers give a connection up when what they sent is not answered for 20 s. While the network is cut the other
    end cannot hear of it, and would wait for ever after: the answer that it waits for is lost, and it has nothing to
    send that would be refused. A probe is refused. Probes that nobody answers, as while a cut lasts, go on for over
    half an hour. Returns at once.
    """
    threading.Thread(target=_run, name="probes", daemon=True).start()


def _run() -> None:
    while True:
        probe_now()
        time.sleep(_LOOK_SECONDS)


def probe_now() -> int:
    """Sets the probes of the connections that are there and have none yet; returns how many these were."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile, or not connected
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found += _probe(int(name))
    return found


def _probe(descriptor: int) -> bool:
    copy = os.dup(descriptor)
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
            return False
        connection.getpeername()
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
            return False
        # Its owner has a limit of its own, which probes that are not answered would reach too.
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
            return False
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _IDLE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _MOST_PROBES)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return True
