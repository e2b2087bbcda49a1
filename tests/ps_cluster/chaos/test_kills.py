"""Processes of a training are killed: it goes on, ends with 0, and every row has been trained."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.ps_cluster.chaos.runs import SMALL, ended_well, halted_between_checkpoints, last, restarted
from tests.ps_cluster.small_cluster import Run

EVERYONE = ["ps 0", "ps 1", "worker 0", "worker 1"]


def kill(run: Run, role: str, index: int, checkpoints: int = 1) -> int:
    """Kills a process some steps after a checkpoint; returns the step."""
    with halted_between_checkpoints(run, checkpoints) as step:
        os.kill(run.pid_of(role, index), signal.SIGKILL)
    return step


def kill_a_ps_of_a_job(start: Callable[..., Run], role: str, index: int) -> None:
    run = start(**SMALL, training__epochs=12)
    step = kill(run, role, index)
    found = ended_well(run, 12)
    assert restarted(run) == [EVERYONE]
    (event,) = run.events("restart")
    assert (event["who"], event["status"]) == (f"{role} {index}", -signal.SIGKILL)
    assert event["step"] - step in (0, 1)
    (resumed,) = run.events("resume")
    assert resumed["step"] == event["checkpoint_step"] > 0
    assert resumed["rows_retrained"] == found.rows_retrained > 0
    assert f"all processes start again from the checkpoint of step {resumed['step']}" in run.out


def test_a_job_goes_back_to_its_checkpoint_when_a_ps_is_lost(start: Callable[..., Run]) -> None:
    kill_a_ps_of_a_job(start, "ps", 1)


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_a_job_goes_back_to_its_checkpoint_when_a_worker_is_lost(start: Callable[..., Run], index: int) -> None:
    kill_a_ps_of_a_job(start, "worker", index)


def test_a_lost_ps_is_refilled_alone_and_after_a_lost_worker_the_ps_stay(start: Callable[..., Run]) -> None:
    run = start(**SMALL, training__epochs=20, failures__recovery="shard", checkpoint__deltas=2)
    kill(run, "ps", 1)
    run.until(lambda: run.events("recovered"))
    kill(run, "worker", 1, checkpoints=len(run.events("checkpoint")) + 1)
    found = ended_well(run, 20)
    assert restarted(run) == [["ps 1"], ["worker 0", "worker 1"]]
    (recovered,) = run.events("recovered")
    assert recovered["ps"] == [1]
    assert 0 < recovered["checkpoint_step"] <= recovered["step"]
    assert found.rows_retrained > 0
    assert (
        f"training goes on with PS 1 with its part of the checkpoint of step {recovered['checkpoint_step']}" in run.out
    )


@pytest.mark.slow
def test_two_ps_that_are_lost_at_once_are_both_refilled(start: Callable[..., Run]) -> None:
    run = start(**SMALL, training__epochs=20, failures__recovery="shard")
    kill(run, "ps", 0)
    os.kill(run.pid_of("ps", 1), signal.SIGKILL)
    ended_well(run, 20)
    assert sorted(index for event in run.events("recovered") for index in event["ps"]) == [0, 1]


@pytest.mark.slow
def test_a_ps_that_is_lost_before_the_first_checkpoint_starts_with_empty_tables(start: Callable[..., Run]) -> None:
    run = start(**{**SMALL, "checkpoint__every_steps": 100_000}, training__epochs=20, failures__recovery="shard")
    run.until(lambda: last(run).step > 3)
    os.kill(run.pid_of("ps", 1), signal.SIGKILL)
    ended_well(run, 20)
    assert [event["checkpoint_step"] for event in run.events("recovered")] == [0]
    assert "training goes on with PS 1 with empty tables" in run.out


@pytest.mark.slow
def test_a_ps_that_is_lost_while_the_workers_recover_costs_a_restart_of_the_workers(start: Callable[..., Run]) -> None:
    run = start(**SMALL, training__epochs=30, failures__recovery="shard")
    kill(run, "ps", 1)
    run.until(lambda: run.events("restart"))
    os.kill(run.pid_of("ps", 0), signal.SIGKILL)
    ended_well(run, 30)
