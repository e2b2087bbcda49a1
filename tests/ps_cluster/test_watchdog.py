"""A wait beyond its limit ends the worker, and the message says for whom it waited."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from ps_cluster.errors import RESTART
from ps_cluster.job.failures_schema import Failures
from ps_cluster.job.membership import Membership
from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.train.collective import _serve_rendezvous
from ps_cluster.train.reach import accepts, serves_grpc, serves_http, wait_until_reachable, who_does_not_answer
from ps_cluster.train.watchdog import Watchdog

PATIENCE_SECONDS = 60


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing, like a process that is suspended."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def real_ps() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with reserved_addresses(2) as (ps, worker):
        command = [sys.executable, "-m", "ps_cluster", "ps", "--ps", ps, "--workers", worker, "--index", "0"]
        process = subprocess.Popen(command)
        try:
            wait_until_reachable("PS 0", ps, "the test", PATIENCE_SECONDS)
            yield ps, process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def nowhere() -> Iterator[str]:
    with reserved_addresses(1) as (address,):
        yield address


def member(ps: tuple[str, ...], workers: tuple[str, ...], rendezvous: str | None = None) -> Membership:
    return Membership("worker", 1, ps, workers, rendezvous)


def test_a_server_answers_until_it_is_suspended(nowhere: str) -> None:
    with real_ps() as (address, process):
        assert serves_grpc(address, PATIENCE_SECONDS)
        os.kill(process.pid, signal.SIGSTOP)
        while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:  # its threads stop one by one
            time.sleep(0.05)
        assert not serves_grpc(address, 1)
        assert accepts(address)
        told = who_does_not_answer(member((address,), (nowhere, nowhere)), 1)
        assert told == [f"PS 0 ({address} does not answer)", f"worker 0 ({nowhere} does not answer)"]


def test_nobody_listens_where_a_process_has_died(nowhere: str) -> None:
    assert not serves_grpc(nowhere)
    assert not serves_http(nowhere)
    assert not accepts(nowhere)


def test_the_rendezvous_is_asked_too(nowhere: str) -> None:
    server = _serve_rendezvous(nowhere, ["127.0.0.1", "127.0.0.1"])
    try:
        assert serves_http(nowhere, PATIENCE_SECONDS)
        with silent_server() as silent:
            assert not serves_http(silent, 0.5)
            assert who_does_not_answer(member((), ("h:1", "h:2"), silent), 0.5) == [
                f"worker 0's rendezvous ({silent} does not answer)"
            ]
    finally:
        server.shutdown()
        server.server_close()


def test_a_wait_beyond_its_limit_names_whom_it_is_for() -> None:
    said: queue.Queue[str] = queue.Queue()
    with (
        silent_server() as ps,
        Watchdog(member((ps,), ("127.0.0.1:1", "127.0.0.1:2")), Failures(wait_seconds=1), said.put) as dog,
    ):
        dog.at("step 512")
        told = said.get(timeout=PATIENCE_SECONDS)
    assert told.startswith(f"worker 1: step 512 has waited 1 s for PS 0 ({ps} does not answer) and worker 0 (")


def test_work_that_goes_on_is_left_alone() -> None:
    said: queue.Queue[str] = queue.Queue()
    with Watchdog(member((), ("127.0.0.1:1",)), Failures(wait_seconds=2), said.put) as dog:
        for step in range(8):
            dog.at(f"step {step}")
            time.sleep(0.5)
        dog.at("evaluation", long=True)
        time.sleep(3)
        dog.off()
        time.sleep(3)
    assert said.empty()


def test_the_process_ends_with_the_code_that_asks_for_a_restart_whatever_it_hangs_in(nowhere: str) -> None:
    code = f"""
import socket
from ps_cluster.job.failures_schema import Failures
from ps_cluster.job.membership import Membership
from ps_cluster.train.watchdog import Watchdog
server = socket.create_server(("127.0.0.1", 0))
with Watchdog(Membership("worker", 0, ("{nowhere}",), ("h:1",)), Failures(wait_seconds=1)) as dog:
    dog.at("step 3")
    server.accept()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == RESTART
    assert (
        done.stderr.splitlines()[-1] == f"error: worker 0: step 3 has waited 1 s for PS 0 ({nowhere} does not answer)"
    )
