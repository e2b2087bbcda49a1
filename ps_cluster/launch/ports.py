"""Ports of this machine that stay reserved until a server of the job listens on them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_addresses(count: int, host: str = "127.0.0.1") -> Iterator[list[str]]:
    """`count` different addresses "host:port" that no other program is given while the context is open.

    Each port is bound, on all interfaces, as the kernel chooses it, *without* SO_REUSEADDR: so it was free
    of listeners and of the remains of old connections. The option is set afterwards, on the bound socket,
    which never listens. From then on a server that sets the option itself (TensorFlow's gRPC, Python's
    `http.server`) can listen there, one at a time, while neither `bind` to port 0 nor an outgoing
    connection gets the port.
    """
    with contextlib.ExitStack() as stack:
        addresses = []
        for _ in range(count):
            holder = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            holder.bind(("", 0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            addresses.append(f"{host}:{holder.getsockname()[1]}")
        yield addresses


def listen_error(port: int) -> OSError | None:
    """Why a server of this process could not listen on `port` now; None when it could."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as error:
            return error
    return None
