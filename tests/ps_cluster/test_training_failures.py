"""Clusters that fail in the middle of a training: the cause is told, every process goes, the ports are free."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.checkpoint.finding import checkpoint_at
from ps_cluster.launch.ports import listen_error
from tests.data import orc_files
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

ENDLESS: dict[str, Any] = {"training__epochs": 1_000_000, "training__log_every_steps": 5, "cluster__workers": 2}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts a run whose processes end with the test, whatever happens in it."""
    runs: list[Run] = []

    def started(**changes: Any) -> Run:
        if not (tmp_path / "train.orc").exists():
            small_cluster.write_samples(tmp_path)
        # Of the first failure; what a job does after it: tests/ps_cluster/chaos.
        runs.append(small_cluster.start(tmp_path, job(**{"failures": {"max_restarts": 0}, **changes})))
        return runs[-1]

    yield started
    for run in runs:
        run.kill_rest()


def in_mid_training(run: Run) -> list[int]:
    """Waits until a run trains; returns its ports."""
    run.until(lambda: run.events("step"))
    ports = run.ports()
    assert ports
    return ports


def assert_nothing_is_left(run: Run, ports: list[int]) -> None:
    # A reader process notices its worker's end by itself, a moment later, and the kernel closes a killed process's
    # sockets after its memory.
    def left() -> list[str]:
        return [*run.processes().values(), *(f"port {port}" for port in ports if listen_error(port) is not None)]

    deadline = time.monotonic() + small_cluster.PATIENCE_SECONDS
    while left():
        assert time.monotonic() < deadline, left()
        time.sleep(0.05)


def run_json(run: Run) -> dict[str, Any]:
    path = run.output / "run.json"  # not there for a moment while another run takes the folder over
    return json.loads(path.read_text()) if path.exists() else {}


# --- Killed processes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "index"),
    [("ps", 1), *(pytest.param("worker", index, marks=pytest.mark.slow) for index in (0, 1))],
)
def test_a_killed_process_ends_the_run_and_is_named(start: Callable[..., Run], role: str, index: int) -> None:
    run = start(**ENDLESS)
    ports = in_mid_training(run)
    os.kill(run.pid_of(role, index), signal.SIGKILL)
    run.wait()
    print(run.err)
    assert run.status == 1
    assert run.err.startswith(f"{role} {index} was killed by SIGKILL")
    assert f"log: {run.output}/logs/{role}-{index}.log" in run.err
    assert "Traceback" not in run.out + run.err
    assert run_json(run)["state"] == "failed"
    assert_nothing_is_left(run, ports)


@pytest.mark.slow
def test_a_killed_launcher_takes_all_processes_with_it_and_the_folder_can_be_used_again(
    start: Callable[..., Run],
) -> None:
    run = start(**ENDLESS)
    ports = in_mid_training(run)
    second = start(**ENDLESS).wait()
    print(second.err)
    assert second.status == 2
    assert f"found process {run.launcher.pid} using {run.output}" in second.err
    run.launcher.send_signal(signal.SIGKILL)
    run.wait()
    assert_nothing_is_left(run, ports)
    again = start(**ENDLESS)
    again.until(lambda: run_json(again).get("pid") == again.launcher.pid)
    again.until(lambda: len(again.processes()) > 1)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_end_saves_where_it_stands(start: Callable[..., Run], asked: signal.Signals) -> None:
    run = start(**ENDLESS)
    ports = in_mid_training(run)
    run.launcher.send_signal(asked)
    run.wait()
    print(run.err)
    assert run.status == 75
    assert run.err.splitlines()[-1].startswith("drained at step ")
    assert checkpoint_at(str(run.output)).step > 0
    assert "Traceback" not in run.out + run.err
    assert run_json(run)["state"] == "stopped"
    assert_nothing_is_left(run, ports)


@pytest.mark.slow
@pytest.mark.parametrize("after_seconds", [0.5, 3, 6])
def test_a_run_that_is_killed_while_it_starts_leaves_nothing(start: Callable[..., Run], after_seconds: float) -> None:
    run = start(**ENDLESS)
    time.sleep(after_seconds)
    run.launcher.send_signal(signal.SIGKILL)
    run.wait()
    assert_nothing_is_left(run, [])


@pytest.mark.slow
@pytest.mark.parametrize(("role", "index"), [("ps", 0), ("worker", 0), ("worker", 1)])
def test_a_process_that_is_killed_while_the_others_wait_for_it_ends_the_run(
    start: Callable[..., Run], role: str, index: int
) -> None:
    run = start(**ENDLESS)
    run.until(lambda: run.find(role, index) is not None)
    os.kill(run.pid_of(role, index), signal.SIGKILL)
    run.wait()
    assert run.status == 1
    assert run.err.startswith(f"{role} {index} was killed by SIGKILL")
    assert_nothing_is_left(run, [])


@pytest.mark.slow
def test_a_killed_reader_process_ends_the_run_and_is_named(start: Callable[..., Run]) -> None:
    run = start(**ENDLESS)
    ports = in_mid_training(run)
    reader = next(pid for pid, line in run.processes().items() if "data.read.arrow_server" in line)
    os.kill(reader, signal.SIGKILL)
    run.wait()
    print(run.err)
    assert run.status == 1
    assert run.err.startswith("worker")
    assert "Traceback" not in run.out + run.err
    assert_nothing_is_left(run, ports)


# --- Wrong samples ---------------------------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[int, tuple], tuple]) -> None:
    """Changes rows of a file; its stripes stay."""
    rows, sizes = orc_files.read(str(path)), orc_files.stripe_rows(str(path))
    changed = iter([change(number, row) for number, row in enumerate(rows)])
    orc_files.write(path, small_cluster.SCHEMA, [[next(changed) for _ in range(size)] for size in sizes])


def refused(run: Run) -> str:
    """Waits for a run that must end as the user's mistake; returns what it says."""
    run.wait()
    print(run.err)
    assert run.status == 2, run.err + run.logs()
    assert "Traceback" not in run.out + run.err
    assert_nothing_is_left(run, [])
    return run.err


def test_all_that_is_wrong_with_the_columns_is_told_at_once(start: Callable[..., Run], tmp_path: Path) -> None:
    features = job()["features"]
    features[0] |= {"column": "price"}
    features[8] |= {"column": "prise"}
    told = refused(start(features=features, cluster={"ps": 0}))
    train = tmp_path / "train.orc"
    assert told.splitlines() == [
        f"{train}: column price: expected an integer or boolean, found double",
        f"{train}: column prise: expected a number (float, double, integer or boolean), found no such column; "
        "did you mean price?",
    ]


@pytest.mark.slow
def test_a_missing_file_is_named(start: Callable[..., Run], tmp_path: Path) -> None:
    told = refused(start(data__train=["train.orc", "more/*.orc"]))
    assert told.count("\n") == 1
    assert f"{tmp_path}/more/*.orc" in told


@pytest.mark.slow
def test_a_null_without_a_stand_in_is_named_by_file_column_and_row(start: Callable[..., Run], tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    rewrite(tmp_path / "train.orc", lambda number, row: (None, *row[1:]) if number == 100 else row)
    told = refused(start(cluster={"ps": 0}))
    where = f"{tmp_path}/train.orc: column user: row 100 (counted from 0)"
    assert told.startswith(f"{where}: expected an integer, found null")
    assert told.count("\n") == 1


@pytest.mark.parametrize("side", ["train", pytest.param("test", marks=pytest.mark.slow)])
def test_a_label_that_is_neither_0_nor_1_is_named_by_file_column_and_row(
    start: Callable[..., Run], tmp_path: Path, side: str
) -> None:
    small_cluster.write_samples(tmp_path)
    rewrite(tmp_path / f"{side}.orc", lambda number, row: (*row[:-1], 2) if number == 99 else row)
    told = refused(start(cluster={"ps": 0}))
    assert told == f"{tmp_path}/{side}.orc: column label: row 99 (counted from 0): expected 0 or 1, found 2\n"


def test_a_damaged_stripe_of_one_worker_ends_the_whole_run(start: Callable[..., Run], tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    orc_files.damage_stripe(str(tmp_path / "train.orc"), 1)  # worker 1's share
    told = refused(start(cluster={"ps": 1, "workers": 2}))
    assert told.startswith(f"{tmp_path}/train.orc: stripe 1 (rows 90 to 139, counted from 0): expected a readable")
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_training_that_diverges_ends_with_the_step_and_the_advice(start: Callable[..., Run]) -> None:
    rate = {"name": "sgd", "learning_rate": 1e30}
    run = start(optimizers={"sparse": rate, "dense": rate}, schedule={}, cluster__workers=2).wait()
    print(run.err)
    assert run.status == 1
    assert "the loss is" in run.err
    assert "lower the learning rates" in run.err
    assert "Traceback" not in run.out + run.err
    assert_nothing_is_left(run, [])
