"""Where the time of steps goes: parts of known moments."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ps_cluster.metrics.window_calibration import WindowCalibration, window_calibration
from ps_cluster.train.step_time import PARTS, Marks, StepClock, StepTime, parts_of_step, staleness, step_times


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
        clock.step_done(step, rows=7)
    assert (clock.step, clock.steps, clock.rows) == (3, 2, 21)
    assert clock.total.input >= 0.02
    assert [clock.total.pull, clock.total.compute, clock.total.push] == [2.0, 4.0, 2.0]


def test_values_of_workers_come_back_as_their_step_times():
    times = [StepTime(*np.arange(len(PARTS)) + 10.0 * worker) for worker in range(3)]
    assert step_times([value for one in times for value in one.values()]) == times


def test_a_gradient_is_late_by_the_gradients_that_came_between_its_look_up_and_itself():
    # One worker after the other looks up when all pushes of the step before are applied, and ends in that order.
    in_order = np.array([[10.0, 9.0, 11.0], [10.1, 9.1, 12.0], [10.2, 9.2, 13.0]])
    assert staleness(in_order) == (0 + 1 + 2) / 3
    in_order[2, 1] = 10.15  # the third's push of the step before came after the first two had looked up
    assert staleness(in_order) == (1 + 2 + 2) / 3
    assert staleness(np.array([[10.0, 9.0, 11.0]])) == 0
    assert staleness(np.array([[10.0, -np.inf, 11.0], [10.0, -np.inf, 11.5]])) == 0.5


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
