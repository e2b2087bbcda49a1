"""Where the time of steps goes: parts of known moments, and of a cluster whose processes are held up in turn."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.metrics.window_calibration import WindowCalibration, window_calibration
from ps_cluster.train.step_time import PARTS, Marks, StepClock, StepTime, parts_of_step, step_times
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

HELD_SECONDS = 2.0


def test_every_moment_of_a_step_counts_once():
    begun, ended = 100.0, 110.0
    parts = parts_of_step(begun, Marks(pulled=101.0, computed=103.0, reduced=106.0, applied=106.5), ended)
    assert parts == StepTime(pull=1.0, compute=2.5, all_reduce=3.0, push=3.5)
    assert parts.total == ended - begun


def test_a_clock_that_is_set_back_makes_no_negative_parts():
    parts = parts_of_step(100.0, Marks(pulled=99.0, computed=102.0, reduced=101.0, applied=250.0), 103.0)
    assert parts.total == pytest.approx(3.0)
    assert min(parts.values()) == 0.0


def test_the_clock_leaves_out_the_first_step_and_begins_a_window_anew():
    clock = StepClock()
    for step in (1, 2, 3):
        with clock.counts("input"):
            time.sleep(0.01)
        clock.ran(5.0, Marks(6.0, 8.0, 8.0, 8.0), 9.0)
        clock.step_done(first=step == 1)
    assert clock.steps == 2
    assert clock.total.input >= 0.02
    assert [clock.total.pull, clock.total.compute, clock.total.push] == [2.0, 4.0, 2.0]


def test_values_of_workers_come_back_as_their_step_times():
    times = [StepTime(*np.arange(len(PARTS)) + 10.0 * worker) for worker in range(3)]
    assert step_times([value for one in times for value in one.values()]) == times


def test_calibration_of_a_window_is_mean_prediction_over_mean_label():
    window = WindowCalibration()
    assert window_calibration(window.sums) is None
    logits, offsets = np.array([0.5, -1.0, 2.0], np.float32), np.array([0.5, -1.0, 2.0], np.float32)
    window.add(logits, np.array([1.0, 0.0, 0.0], np.float32))
    predictions = (1 / (1 + np.exp(-logits.astype(np.float64)))).sum()
    assert window_calibration(window.sums) == pytest.approx(predictions)
    window.reset()
    window.add(logits, np.array([1.0, 1.0, 0.0], np.float32), offsets)  # as sampled: even odds
    assert window_calibration(window.sums) == pytest.approx(0.75)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("run")
    small_cluster.write_samples(folder)
    changes = {"training__epochs": 1_000_000, "training__log_every_steps": 5, "cluster__workers": 2, "cluster__ps": 1}
    run = small_cluster.start(folder, job(**changes))
    try:
        run.until(lambda: len(run.events("step")) >= 2)
        yield run
    finally:
        run.kill_rest()


def seconds_held(run: Run, *pids: int) -> list[dict[str, float]]:
    """By worker, the parts of its steps from before a time in which all of training stood still, because processes were
    stopped, until after it."""
    before = len(run.events("step"))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        steps = -1
        while steps != len(run.events("step")):  # what was read ahead is trained first
            steps = len(run.events("step"))
            time.sleep(HELD_SECONDS)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    run.until(lambda: len(run.events("step")) > steps + 1)
    windows = [event["step_time"] for event in run.events("step")[before:]]
    return [{part: sum(window[worker][part] for window in windows) for part in PARTS} for worker in (0, 1)]


def test_waiting_for_a_ps_counts_as_pull_and_push(run: Run):
    for parts in seconds_held(run, run.pid_of("ps", 0)):
        assert parts["pull"] + parts["push"] > 0.8 * HELD_SECONDS, parts
        assert parts["pull"] + parts["push"] > 0.5 * sum(parts.values()), parts


def test_waiting_for_samples_counts_as_input_and_waiting_for_that_worker_as_all_reduce(run: Run):
    worker = run.pid_of("worker", 1)
    reader = next(pid for pid, line in run.processes().items() if "arrow_server" in line and parent(pid) == worker)
    waiting, slow = seconds_held(run, reader)
    assert slow["input"] > 0.8 * HELD_SECONDS, slow
    assert waiting["all_reduce"] > 0.8 * HELD_SECONDS, waiting
    assert waiting["input"] < 0.5 * slow["input"], (waiting, slow)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
