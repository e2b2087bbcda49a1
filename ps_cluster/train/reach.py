"""Waiting for another process of the job to listen, with a limit and a name."""

from __future__ import annotations

import socket
import time

from ps_cluster.errors import RunError

_START_SECONDS = 300.0


def wait_until_reachable(who: str, address: str, me: str) -> None:
    """Returns when `address` (host:port) accepts connections.

    Raises:
      RunError: it did not within five minutes; says that `me` waited for `who`.
    """
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RunError(
                    f"{me}: {who} at {address} did not answer within {_START_SECONDS:.0f} s: {error}"
                ) from error
            time.sleep(0.1)
