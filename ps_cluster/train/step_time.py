"""Where the time of training steps goes: input, pull, compute, all-reduce, push, checkpoint, and the rest.

Every moment of a worker counts for one part only, so that the parts add up to wall-clock time. Of what goes on at the
same time, that counts which the others hide behind: compute before all-reduce before push. A part therefore tells what
training would gain if it took no time, not how long it took.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from ps_cluster.train.collective import gathered


@dataclass(frozen=True)
class StepTime:
    """Seconds of one worker, over one or more steps.

    Attributes:
        input: Waiting for a batch.
        pull: Asking the PS for embeddings, until all have come.
        compute: Forward and backward pass, and the update of the dense weights.
        all_reduce: Waiting for the sum of the dense gradients, which is also waiting for slower workers.
        push: Waiting for the PS to take and apply the gradients of embeddings; with synchronous updates for the other
            workers' gradients too.
        checkpoint: Training stood still for a checkpoint.
        other: The rest: running metrics, progress, the program between the steps.
    """

    input: float = 0.0
    pull: float = 0.0
    compute: float = 0.0
    all_reduce: float = 0.0
    push: float = 0.0
    checkpoint: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        """All of it: wall-clock seconds."""
        return sum(self.values())

    def values(self) -> list[float]:
        """In the order of `PARTS`."""
        return [getattr(self, part) for part in PARTS]

    def __add__(self, more: StepTime) -> StepTime:
        return StepTime(*(a + b for a, b in zip(self.values(), more.values())))


PARTS = tuple(field.name for field in fields(StepTime))


class Marks(NamedTuple):
    """Clock readings inside a step, in seconds since 1970 (`ps_cluster.train.time_marks`): when embeddings had come,
    all gradients were computed, the dense ones were summed, the dense weights were updated."""

    pulled: float
    computed: float
    reduced: float
    applied: float


def parts_of_step(begun: float, marks: Marks, ended: float) -> StepTime:
    """The parts of a step that ran from `begun` to `ended`; clock readings in seconds since 1970."""
    times = np.maximum.accumulate([begun, *marks]).clip(max=ended)  # a clock may be set back
    pull, forward_backward, all_reduce, update = np.diff(times).tolist()
    return StepTime(pull=pull, compute=forward_backward + update, all_reduce=all_reduce, push=ended - float(times[-1]))


class StepClock:
    """Adds up a worker's step times: of the window since the last report, and since training began.

    The first step of a process, in which TensorFlow makes the graph, is not counted. What is not private may be read
    by another thread.

    Attributes:
        total: Of all steps that are counted.
        steps: How many these are.
        rows: That this worker has trained on, in all steps.
        step: Number of the last step.
        last_step_time: Seconds since 1970 of its end; None before it.
    """

    def __init__(self) -> None:
        self.total = StepTime()
        self.steps = self.rows = self.step = 0
        self.last_step_time: float | None = None
        self._window = StepTime()
        self._window_steps = 0
        self._step = StepTime()
        self._begun = time.monotonic()
        self._pulled = self._ended_before = self._ended = -math.inf

    @contextlib.contextmanager
    def counts(self, part: str) -> Iterator[None]:
        """What runs inside counts as `part`."""
        begun = time.monotonic()
        yield
        self._step += StepTime(**{part: time.monotonic() - begun})

    def ran(self, begun: float, marks: Marks, ended: float) -> None:
        """The step's function ran; seconds since 1970."""
        self._step += parts_of_step(begun, marks, ended)
        self._pulled, self._ended_before, self._ended = marks.pulled, self._ended, ended

    def step_done(self, number: int, rows: int) -> None:
        """A step has ended, all that belongs to it included; `rows`: this worker's."""
        now = time.monotonic()
        if self.last_step_time is not None:
            step = self._step + StepTime(other=max(now - self._begun - self._step.total, 0.0))
            self._window += step
            self._window_steps += 1
            self.total, self.steps = self.total + step, self.steps + 1
        self._step, self._begun = StepTime(), now
        self.step, self.rows, self.last_step_time = number, self.rows + rows, time.time()

    def rested(self) -> None:
        """There was nothing to do since the last step; that time counts for nothing."""
        self._step, self._begun = StepTime(), time.monotonic()

    def window_of_all(self) -> tuple[int, list[StepTime]]:
        """Steps since the call before, and what went into them by worker; every worker calls it."""
        steps, mine = self._window_steps, self._window
        self._window, self._window_steps = StepTime(), 0
        return steps, step_times(gathered(np.array(mine.values(), np.float64)))

    def staleness_of_all(self) -> float:
        """Of the last step with asynchronous updates (see `staleness`), mean over workers; every worker calls it."""
        mine = [self._pulled, self._ended_before, self._ended]
        return staleness(gathered(np.array(mine, np.float64)).reshape(-1, 3))


def staleness(moments: np.ndarray) -> float:
    """How many steps a gradient of embeddings is late: gradients of other workers, each of one step, that the tables
    took between a worker's look-up and its own gradient of the same step; mean over workers.

    With asynchronous updates, where all workers still meet in the all-reduce of each step, these are the gradients of
    the step before that came after the look-up, and those of the same step that came before the own one.

    moments: float64 `[workers, 3]`: seconds since 1970 at which embeddings had come, the pushes of the step before had
    been applied, and those of this step had been; clocks of several machines must agree.
    """
    pulled, before, ended = np.asarray(moments, np.float64).T
    missed = before[None, :] > pulled[:, None]
    overtaken = ended[None, :] < ended[:, None]
    np.fill_diagonal(missed, False)
    return float((missed.sum(axis=1) + overtaken.sum(axis=1)).mean())


def step_times(values: np.ndarray | Sequence[float]) -> list[StepTime]:
    """From the values of several workers, one after the other."""
    return [StepTime(*row) for row in np.reshape(values, [-1, len(PARTS)]).tolist()]
