"""What the tests ask of a run: its last step, its messages, and that it ended with all rows trained."""

from __future__ import annotations

from typing import Any

from ps_cluster.train.last_step import LastStep
from tests.ps_cluster.last_told import last_told
from tests.ps_cluster.small_cluster import Run

ROWS = 320  # of an epoch of small_cluster's samples

SMALL: dict[str, Any] = {
    "cluster__workers": 2,
    "checkpoint__every_steps": 10,
    "training__log_every_steps": 5,
    "data__test": [],
}


def last(run: Run) -> LastStep:
    """Of a run that has begun."""
    return last_told(run.output)


def ended_well(run: Run, epochs: int) -> LastStep:
    """Waits for the end; all rows of all epochs must have been trained."""
    run.wait()
    print(run.out, run.err)
    assert run.status == 0, run.err + run.logs()
    assert "Traceback" not in run.out + run.err
    found = last(run)
    print(found)
    assert found.rows == epochs * ROWS
    assert found.step == run.events("done")[-1]["steps"]
    return found


def restarted(run: Run) -> list[list[str]]:
    """Which processes were started again, each time."""
    return [event["restarted"] for event in run.events("restart")]
