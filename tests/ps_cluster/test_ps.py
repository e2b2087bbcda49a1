"""A parameter server is there for its workers, and gone when it is told or its launcher is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ps_cluster.launch.ports import listen_error, reserved_addresses
from tests.ps_cluster.test_local import PATIENCE_SECONDS, launch, log, ports_of, processes_of, wait_for

PS = """
import argparse, sys
from ps_cluster.errors import RunError
from ps_cluster.job.membership import add_arguments, membership_of
from ps_cluster.roles.ps import run_ps
parser = argparse.ArgumentParser()
add_arguments(parser)
try:
    run_ps(membership_of(parser.parse_args(), "ps"), libraries=[])
except RunError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
"""

CLIENT = """
import sys
from ps_cluster.quiet import import_tensorflow
tf = import_tensorflow(gpu=False)
from tensorflow_recommenders_addons.dynamic_embedding.python.ops.cuckoo_hashtable_ops import cuckoo_ops as ops
ps, me = sys.argv[1].split(","), sys.argv[2]
cluster = tf.train.ClusterSpec({"ps": ps, "worker": {0: me}})
tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
sizes = []
for index in range(len(ps)):
    with tf.device(f"/job:ps/task:{index}/device:CPU:0"):
        table = ops.tfra_cuckoo_hash_table_of_tensors(
            shared_name="user", use_node_name_sharing=False, key_dtype=tf.int64, value_dtype=tf.float32,
            value_shape=[4], init_size=64)
        ops.tfra_cuckoo_hash_table_insert(table, tf.range(index + 3, dtype=tf.int64), tf.ones([index + 3, 4]))
        sizes.append(int(ops.tfra_cuckoo_hash_table_size(table)))
print(sizes, flush=True)
sys.stdin.read()
"""


def start(*command: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return subprocess.Popen(
        [sys.executable, "-c", *command],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    with reserved_addresses(3) as found:
        yield found


def test_two_ps_serve_a_connected_client_and_end_when_told(addresses: list[str]) -> None:
    ps, me = ",".join(addresses[:2]), addresses[2]
    servers = [start(PS, "--ps", ps, "--workers", me, "--index", str(index)) for index in range(2)]
    client = start(CLIENT, ps, me)
    try:
        for index, server in enumerate(servers):
            assert line(server) == f"ps {index} is ready at {addresses[index]}\n"
        assert line(client) == "[3, 4]\n"
        for signum, status, server in zip((signal.SIGTERM, signal.SIGINT), (0, 130), servers):
            server.send_signal(signum)
            out, err = server.communicate(timeout=10)
            assert (server.returncode, out, err) == (status, "", "")
    finally:
        for process in [client, *servers]:
            process.kill()
            process.communicate()


def test_a_taken_port_is_named_in_one_line(addresses: list[str]) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        server = start(PS, "--ps", f"127.0.0.1:{port}", "--workers", addresses[2], "--index", "0")
        out, err = server.communicate(timeout=PATIENCE_SECONDS)
    assert (server.returncode, out) == (1, "")
    assert err == f"ps 0: cannot listen on port {port}: Address already in use\n"


def test_a_ps_told_to_end_while_it_starts_does_so(addresses: list[str]) -> None:
    server = start("print(1, flush=True)" + PS, "--ps", addresses[0], "--workers", addresses[2], "--index", "0")
    assert line(server) == "1\n"
    server.terminate()
    out, err = server.communicate(timeout=PATIENCE_SECONDS)
    assert server.returncode in (0, -signal.SIGTERM)
    assert (out, err) == ("", "")


def test_a_ps_dies_with_its_launcher(tmp_path: Path) -> None:
    output = tmp_path / "output"
    launcher = launch(output, ps_0="real", worker_0="wait")
    wait_for(lambda: "ps 0 is ready at 127.0.0.1:" in log(output, "ps-0"))
    ports = ports_of(output)
    assert listen_error(ports[0]) is not None
    launcher.kill()
    launcher.communicate()
    wait_for(lambda: processes_of(output) == [])
    # a moment later than its command line: the kernel takes a dying process apart in that order
    wait_for(lambda: listen_error(ports[0]) is None)
