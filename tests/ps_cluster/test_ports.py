"""A reserved port goes to the server it is meant for, and to nobody else."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from ps_cluster.launch.ports import listen_error, reserved_addresses

TENSORFLOW_SERVER = """
import sys
from ps_cluster.quiet import import_tensorflow
tf = import_tensorflow(gpu=False)
cluster = tf.train.ClusterSpec({"ps": [sys.argv[1]]})
tf.distribute.Server(cluster, job_name="ps", task_index=0, protocol="grpc")
print("up", flush=True)
sys.stdin.read()
"""


def port(address: str) -> int:
    return int(address.split(":")[1])


def test_a_tensorflow_server_listens_on_a_reserved_port() -> None:
    with reserved_addresses(1) as [address]:
        server = subprocess.Popen(
            [sys.executable, "-c", TENSORFLOW_SERVER, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        assert server.stdout.readline() == "up\n"
        with socket.create_connection(("127.0.0.1", port(address)), timeout=10):
            pass
        server.kill()
        server.communicate()


def test_a_python_server_listens_on_a_reserved_port_again_and_again() -> None:
    with reserved_addresses(1) as [address]:
        for _ in range(2):  # a restarted role gets its port back, whatever hangs on from before
            with (
                http.server.HTTPServer(("", port(address)), http.server.SimpleHTTPRequestHandler) as server,
                socket.create_connection(("127.0.0.1", port(address))),
            ):
                accepted, _ = server.socket.accept()
                accepted.close()


def test_only_one_server_gets_a_reserved_port() -> None:
    with reserved_addresses(1) as [address]:
        assert listen_error(port(address)) is None
        with http.server.HTTPServer(("", port(address)), http.server.SimpleHTTPRequestHandler):
            error = listen_error(port(address))
            assert error is not None and error.strerror == "Address already in use"


def test_who_does_not_know_of_the_reservation_cannot_bind_the_port() -> None:
    with reserved_addresses(1) as [address], socket.socket() as stranger, pytest.raises(OSError):
        stranger.bind(("127.0.0.1", port(address)))


def test_no_port_is_reserved_twice_at_the_same_time() -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = [reserved_addresses(50) for _ in range(8)]
        found = [address for addresses in pool.map(lambda job: job.__enter__(), jobs) for address in addresses]
        assert len(set(found)) == len(found) == 400
        # nor given to servers that ask the kernel for a free port, with the option or without
        for reuse in (0, 1):
            sockets = [socket.socket() for _ in range(400)]
            for each in sockets:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                each.bind(("127.0.0.1", 0))
            given = {each.getsockname()[1] for each in sockets}
            for each in sockets:
                each.close()
            assert not given & {port(address) for address in found}
        for job in jobs:
            job.__exit__(None, None, None)


def test_ports_are_free_after_the_job() -> None:
    with reserved_addresses(3) as addresses:
        pass
    for address in addresses:
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", port(address)))
