"""Jobs that are made slow on purpose, one layer each: the doctor names that layer, live and from what the run left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import COMMAND, PATIENCE_SECONDS, Run, environment, job

pytestmark = pytest.mark.slow

LONG: dict[str, Any] = {"training__epochs": 1_000_000, "training__log_every_steps": 2, "cluster__ps": 2}
SECONDS = "8"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts a run whose processes end with the test; `prefix`: what the commands run under."""
    runs: list[Run] = []
    small_cluster.write_samples(tmp_path)

    def started(prefix: tuple[str, ...] = (), **changes: Any) -> Run:
        (tmp_path / "job.yaml").write_text(json.dumps(job(**{**LONG, **changes})))
        launcher = subprocess.Popen(
            [*prefix, *COMMAND, "train", str(tmp_path / "job.yaml")],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        runs.append(Run(tmp_path, launcher))
        return runs[-1]

    yield started
    for run in runs:
        run.kill_rest()


def doctor(run: Run, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    done = subprocess.run(
        [*prefix, *COMMAND, "doctor", str(run.output), "--seconds", SECONDS, "--json"],
        env=environment(run.folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_named(run: Run, layer: str, prefix: tuple[str, ...] = (), more: int = 12) -> None:
    """The doctor names the layer while the job runs, and again when it was stopped some steps later."""
    run.until(lambda: len(run.events("step")) >= 2)
    live = doctor(run, prefix)
    print(json.dumps(live))
    assert live["verdict"] == layer, live
    run.until(lambda: len(run.events("processes")) >= 3 and len(run.events("step")) >= more)
    run.launcher.send_signal(signal.SIGTERM)
    run.wait()
    left = doctor(run)
    print(json.dumps(left))
    assert left["verdict"] == layer, left


@contextlib.contextmanager
def held_up(pids: Callable[[], list[int]], stopped: float, running: float) -> Iterator[None]:
    """Processes run for a part of the time only."""
    over = threading.Event()

    def hold() -> None:
        while not over.is_set():
            for signum, seconds in ((signal.SIGSTOP, stopped), (signal.SIGCONT, running)):
                for pid in pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signum)
                over.wait(seconds)
        for pid in pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_readers_that_hardly_run_are_the_input(start):
    run = start(cluster__workers=2, data__prefetch_batches=1)
    run.until(lambda: run.events("step"))
    readers = [pid for pid, line in run.processes().items() if "arrow_server" in line]
    assert len(readers) == 2
    with held_up(lambda: readers, stopped=1.0, running=0.02):
        assert_named(run, "input")


def test_a_ps_that_hardly_runs_is_a_busy_ps(start):
    run = start(cluster__workers=2)
    run.until(lambda: run.events("step"))
    ps = [run.pid_of("ps", 1)]
    with held_up(lambda: ps, stopped=0.4, running=0.1):
        assert_named(run, "ps")


@pytest.fixture
def slow_network() -> Iterator[Callable[[str, str], tuple[str, ...]]]:
    """Makes a network namespace whose only link, the loopback interface, is slow: `("4mbit", "128kb")` of that rate,
    with bursts of that size. Returns what commands run under."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("needs root, ip and tc")
    name = f"ps-cluster-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no network namespaces here: {made.stderr}")
    inside = ("ip", "netns", "exec", name)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)

        def limited_to(rate: str, burst: str) -> tuple[str, ...]:
            limit = ["tbf", "rate", rate, "burst", burst, "latency", "5s"]
            limited = subprocess.run([*inside, "tc", "qdisc", "add", "dev", "lo", "root", *limit], capture_output=True)
            if limited.returncode != 0:
                pytest.skip(f"no tbf here: {limited.stderr.decode()}")
            return inside

        yield limited_to
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_narrow_link_is_the_link(start, slow_network: Callable[[str, str], tuple[str, ...]]):
    wide = [{**feature, "dim": 256} if "dim" in feature else feature for feature in small_cluster.JOB["features"]]
    tables = {name: {**table, "dim": 256} for name, table in small_cluster.JOB["tables"].items()}
    inside = slow_network("4mbit", "128kb")
    run = start(inside, cluster__workers=1, features=wide, tables=tables)
    assert_named(run, "link", inside)


LARGE = {"name": "deepfm", "fm_dim": 4, "hidden": [2500, 2500]}  # 26 MB of gradients


def test_gradients_of_a_huge_dense_model_are_the_all_reduce(start, slow_network: Callable[[str, str], tuple[str, ...]]):
    sgd = {"name": "sgd", "learning_rate": 0.001}
    inside = slow_network("500mbit", "1mb")
    run = start(inside, cluster__workers=2, model=LARGE, training__batch_size=4, optimizers__dense=sgd)
    assert_named(run, "all-reduce", inside)


UNFUSED = {"name": "rankmixer", "tokens": 8, "dim": 512, "layers": 2, "expansion": 4, "fused": "off"}


def test_blocks_computed_op_by_op_are_the_operators(start):
    run = start(cluster__workers=1, model=UNFUSED, training__batch_size=256)
    assert_named(run, "operators", more=4)
