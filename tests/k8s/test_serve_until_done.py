"""The script that ends a PS with its run, on real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from ps_cluster.launch.ports import reserved_addresses
from tests.k8s.manifests import K8S

SCRIPT = K8S / "base" / "serve-until-done.sh"
LIMIT_SECONDS = 60
SERVES = ["bash", "-c", "trap 'echo told to end; exit 0' TERM; echo serving; while :; do sleep 0.05; done"]


@contextlib.contextmanager
def script(rendezvous: str, command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        ["bash", str(SCRIPT), rendezvous, *command],
        env={**os.environ, "PAUSE_SECONDS": "0.1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@contextlib.contextmanager
def listening(address: str) -> Iterator[list[float]]:
    """A server that takes every connection; gives the times of those taken."""
    taken: list[float] = []
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])), backlog=64) as server:
        server.settimeout(LIMIT_SECONDS)

        def take(count: int) -> None:
            for _ in range(count):
                server.accept()[0].close()
                taken.append(time.monotonic())

        take(2)
        yield taken


@pytest.fixture
def rendezvous() -> Iterator[str]:
    with reserved_addresses(1) as (address,):
        yield address


def test_the_server_is_ended_in_order_when_the_rendezvous_is_gone(rendezvous):
    with script(rendezvous, SERVES) as process:
        with listening(rendezvous):
            assert process.poll() is None
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 0
    assert output.splitlines() == [
        "serving",
        f"the workers' rendezvous {rendezvous} is gone: the run is over",
        "told to end",
    ]


def test_a_short_gap_does_not_end_the_run(rendezvous):
    with script(rendezvous, SERVES, PAUSE_SECONDS="0.5") as process:
        with listening(rendezvous):
            pass
        with listening(rendezvous):  # open again before five tries have failed
            assert process.poll() is None
        process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 0


def test_the_server_is_not_kept_for_workers_that_never_come(rendezvous):
    with script(rendezvous, SERVES, START_SECONDS="1") as process:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1
    assert f"rendezvous {rendezvous} did not open within 1 s" in output
    assert output.endswith("told to end\n")


@pytest.mark.parametrize("ends", ["exit 2", "exit 0", "kill -9 $$"])
def test_the_script_ends_as_its_server_does(rendezvous, ends):
    with script(rendezvous, ["bash", "-c", ends]) as process:
        process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == {"exit 2": 2, "exit 0": 0, "kill -9 $$": 128 + signal.SIGKILL}[ends]


def test_sigterm_to_the_script_ends_a_real_parameter_server_with_status_0(rendezvous):
    with reserved_addresses(2) as (ps, worker):
        command = [sys.executable, "-m", "ps_cluster", "ps", f"--ps={ps}", f"--workers={worker}", "--index=0"]
        with script(rendezvous, command) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == f"ps 0 is ready at {ps}\n"
            process.terminate()
            output, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, output) == (0, "")
