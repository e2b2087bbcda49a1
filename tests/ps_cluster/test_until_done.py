"""A PS that ends with its run, on real sockets and processes."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from ps_cluster.errors import RESTART
from ps_cluster.job.membership import Membership
from ps_cluster.launch.cause import is_consequence
from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.roles.until_done import DONE, ENDED, GONE, NEVER_CAME, Patience, outcome, wait_until_done
from tests.ps_cluster.ps_processes import START_SECONDS, start

IMPATIENT = Patience(limit=0.3, pause=0.05)
PATIENT = Patience(limit=60.0, pause=0.05)


@pytest.fixture
def address() -> Iterator[str]:
    with reserved_addresses(1) as (one,):
        yield one


@contextlib.contextmanager
def listening(address: str, connections: int) -> Iterator[threading.Thread]:
    """A server that closes after it was asked so many times."""
    server = socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])), backlog=64)

    def serve() -> None:
        with server:
            for _ in range(connections):
                server.accept()[0].close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield thread
    thread.join(60)


def test_it_ends_when_the_file_is_there_whoever_listens(address: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    assert not done.exists()
    done.touch()
    assert outcome(str(done), address, Event(), PATIENT) == DONE


def test_workers_that_have_gone_are_noticed_and_so_are_those_that_never_came(address: str, tmp_path: Path) -> None:
    absent = str(tmp_path / "done")
    assert outcome(absent, address, Event(), IMPATIENT) == NEVER_CAME
    with listening(address, 3):
        assert outcome(absent, address, Event(), IMPATIENT) == GONE


def test_a_gap_that_is_shorter_than_the_patience_ends_nothing(address: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    found: list[str] = []
    waiter = threading.Thread(target=lambda: found.append(outcome(str(done), address, Event(), PATIENT)))
    with listening(address, 2):
        waiter.start()
    with listening(address, 2):  # again, as after a restart
        pass
    assert waiter.is_alive()
    done.touch()
    waiter.join(60)
    assert found == [DONE]


def test_told_to_end_it_serves_as_long_as_the_workers_are_there(address: str, tmp_path: Path) -> None:
    told = Event()
    told.set()
    with listening(address, 20) as workers:
        assert outcome(str(tmp_path / "done"), address, told, PATIENT) == ENDED
        assert not workers.is_alive()  # it was asked to the end


def test_every_end_has_its_status_and_its_words(address: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    place = Membership("ps", 1, ("a:1", "b:1"), ("c:1", "d:1"), address)
    told = Event()
    assert wait_until_done(place, str(tmp_path / "absent"), told, IMPATIENT) == 1
    assert capsys.readouterr().err == f"ps 1: worker 0 at {address} did not answer within 0 s\n"
    told.set()
    assert wait_until_done(place, str(tmp_path / "absent"), told, IMPATIENT) == RESTART
    (tmp_path / "there").touch()
    assert wait_until_done(place, str(tmp_path / "there"), told, IMPATIENT) == 0
    assert capsys.readouterr().out.endswith("ps 1: training is over\n")


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        ("PS 0 is lost: UnavailableError: failed to connect to all addresses", True),
        ("another worker has failed, and this one cannot go on (Horovod has been shut down)", True),
        # Whose PS never comes is counted, so that a run whose PS have failed for good ends.
        ("worker 1: PS 0 at clicks-ps-0:2222 did not answer within 300 s: Name or service not known", False),
        ("worker 1: waited 300 s for: worker 0 is connected", True),
        ("worker 1: worker 0's rendezvous is gone: [Errno 104]", True),
        ("InvalidArgumentError: ids: expected int64", False),
        ("export: `ps_cluster export` ended with status 1", False),
    ],
)
def test_who_only_missed_another_process_is_told_from_who_failed(words: str, is_one: bool) -> None:
    assert is_consequence(words) == is_one


WORKER = """
import sys
from ps_cluster.quiet import import_tensorflow
tf = import_tensorflow(gpu=False)
from ps_cluster.roles.until_done import tell_done
ps, me, done = sys.argv[1:]
cluster = tf.train.ClusterSpec({"ps": [ps], "worker": {0: me}})
tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
devices = ["/job:ps/replica:0/task:0/device:CPU:0"]
tell_done(devices, done)
print("told", flush=True)
sys.stdin.read()
import os; os._exit(0)
"""


def test_a_worker_ends_real_ps_with_a_word_and_sigterm_asks_for_another_one(tmp_path: Path) -> None:
    done = str(tmp_path / "done")
    Path(done).touch()  # left by an earlier PS
    with reserved_addresses(3) as (first, second, worker):
        servers = [
            start("-m", "ps_cluster", "ps", "--ps", ps, "--workers", worker, "--index", "0", "--until-done", file)
            for ps, file in ((first, done), (second, done + "-other"))
        ]
        try:
            for server, ps in zip(servers, (first, second), strict=True):
                assert server.stdout is not None
                assert server.stdout.readline() == f"ps 0 is ready at {ps}\n"
            servers[1].send_signal(signal.SIGTERM)
            output, _ = servers[1].communicate(timeout=START_SECONDS)
            assert (servers[1].returncode, "told to end" in output) == (RESTART, True)
            client = start("-c", WORKER, first, worker, done)
            servers.append(client)
            output, _ = servers[0].communicate(timeout=START_SECONDS)
            assert (servers[0].returncode, output) == (0, "ps 0: training is over\n")
            assert client.communicate("", timeout=START_SECONDS)[0] == "told\n"
        finally:
            for server in servers:
                server.kill()
                server.communicate()
