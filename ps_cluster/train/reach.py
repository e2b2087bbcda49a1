"""Waiting for another process of the job to listen, with a limit and a name; asking whether one still answers."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership

_ASK_SECONDS = 5.0
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # with an empty SETTINGS frame


def wait_until_reachable(who: str, address: str, me: str, limit_seconds: float) -> None:
    """Returns when `address` (host:port) accepts connections.

    Raises:
      RunError: it did not within the limit; says that `me` waited for `who`.
    """
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + limit_seconds
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=_ASK_SECONDS).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RunError(
                    f"{me}: {who} at {address} did not answer within {limit_seconds:g} s: {error}"
                ) from error
            time.sleep(0.1)


def accepts(address: str) -> bool:
    """Whether a process listens at `address`, or may: only a refused connection says that none does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_ASK_SECONDS).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True


def serves_grpc(address: str, limit_seconds: float = _ASK_SECONDS) -> bool:
    """Whether a gRPC server answers at `address`: a process that is suspended accepts connections and says nothing."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=limit_seconds) as asked:
            asked.sendall(_HTTP2)
            return bool(asked.recv(1))
    except OSError:
        return False


def serves_http(address: str, limit_seconds: float = _ASK_SECONDS) -> bool:
    """Whether an HTTP server answers at `address`, whatever it answers."""
    try:
        urllib.request.urlopen(f"http://{address}/ps_cluster/are_you_there", timeout=limit_seconds).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def who_does_not_answer(me: Membership, limit_seconds: float = _ASK_SECONDS) -> list[str]:
    """The processes of the job that do not answer this worker now, each as `PS 1 (host:port does not answer)`."""
    asked = [(f"PS {index}", address, serves_grpc) for index, address in enumerate(me.ps)]
    if me.rendezvous is not None and me.index > 0:
        asked.append(("worker 0's rendezvous", me.rendezvous, serves_http))
    if me.ps:  # then each worker is a server of TensorFlow's, too
        asked += [
            (f"worker {index}", address, serves_grpc) for index, address in enumerate(me.workers) if index != me.index
        ]
    return [
        f"{who} ({address} does not answer)" for who, address, serves in asked if not serves(address, limit_seconds)
    ]
