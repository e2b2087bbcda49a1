"""What the tests ask of a run: its last step, its messages, and that it ended with all rows trained."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

from ps_cluster.train.last_step import LastStep
from tests.ps_cluster.last_told import last_told
from tests.ps_cluster.small_cluster import Run

ROWS = 320  # of an epoch of small_cluster's samples

EVERY_STEPS = 10  # a checkpoint

SMALL: dict[str, Any] = {
    "cluster__workers": 2,
    "checkpoint__every_steps": EVERY_STEPS,
    "training__log_every_steps": 5,
    "data__test": [],
}


def last(run: Run) -> LastStep:
    """Of a run that has begun."""
    return last_told(run.output)


@contextlib.contextmanager
def halted_between_checkpoints(run: Run, checkpoints: int = 1) -> Iterator[int]:
    """Worker 0 stands still inside, at the step that is yielded: some steps after a multiple of `EVERY_STEPS` and some
    before the next one, with as many checkpoints written, so that a kill inside costs rows however fast steps are."""
    halted: list[int] = []

    def halts_there() -> bool:
        worker = run.find("worker", 0)
        if worker is None or len(run.events("checkpoint")) < checkpoints:
            return False
        os.kill(worker, signal.SIGSTOP)
        if 2 < last(run).step % EVERY_STEPS < EVERY_STEPS - 2:
            halted.append(worker)
            return True
        os.kill(worker, signal.SIGCONT)
        return False

    run.until(halts_there)
    try:
        yield last(run).step
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(halted[0], signal.SIGCONT)


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
