"""SIGTERM and Ctrl-C to a process that trains: noted while it matters, its end where it does not."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.ps_cluster.small_cluster import PATIENCE_SECONDS, ROOT

PROGRAM = """
import ctypes, signal, sys, time
from ps_cluster.train.drain import Drain
drain = Drain()
drain.install()
drain.end_at_once("drained early")
if sys.argv[1] == "deferred":
    drain.defer()
print("ready", flush=True)
if sys.argv[1] == "inside C":
    ctypes.CDLL(None).sleep(300)  # no Python code runs in this thread
deadline = time.monotonic() + 300
while not drain.asked and time.monotonic() < deadline:
    time.sleep(0.01)
print("asked", flush=True)
sys.stdin.readline()
drain.end_at_once("drained late")
"""


def process(mode: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mode],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None and started.stdout.readline() == "ready\n"
    return started


@pytest.mark.parametrize("mode", ["at once", "inside C"])
def test_where_nothing_is_lost_the_process_ends_wherever_it_is(mode: str) -> None:
    with process(mode) as one:
        one.send_signal(signal.SIGTERM)
        _, err = one.communicate(timeout=PATIENCE_SECONDS)
        assert (one.returncode, err) == (75, "drained early\n")


SIGNALS = pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])


@SIGNALS
def test_while_training_it_is_noted_and_acted_upon_later(signum: signal.Signals) -> None:
    with process("deferred") as one:
        assert one.stdout is not None
        one.send_signal(signum)
        assert one.stdout.readline() == "asked\n"
        assert one.poll() is None
        _, err = one.communicate("go on\n", timeout=PATIENCE_SECONDS)
        assert (one.returncode, err) == (75, "drained late\n")


@SIGNALS
def test_the_second_one_ends_the_process_at_once(signum: signal.Signals) -> None:
    with process("deferred") as one:
        assert one.stdout is not None
        one.send_signal(signal.SIGTERM)
        assert one.stdout.readline() == "asked\n"
        one.send_signal(signum)
        assert one.wait(PATIENCE_SECONDS) == 128 + signum
