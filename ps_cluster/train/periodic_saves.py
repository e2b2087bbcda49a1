"""Checkpoints while training goes on: begun between two steps, written beside the next ones."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ps_cluster.checkpoint.saver import NotSaved, Saved, Saver
from ps_cluster.train.collective import total
from ps_cluster.train.state import TrainingState


class PeriodicSaves:
    """What a worker does between two steps; every worker calls it after each step.

    With synchronous updates worker 0 alone begins a save after its step s: the pushes of step s have been applied on
    all PS then, and none of step s + 1 can be before worker 0's. With asynchronous updates the others wait meanwhile.
    """

    def __init__(
        self,
        saver: Saver | None,
        every_steps: int | None,
        every_minutes: float | None,
        others_wait: bool,
        tell: Callable[[Saved | NotSaved], None],
    ):
        """Args:
        saver: of worker 0; None on the others.
        every_steps: steps between two saves; None: no saves by steps.
        every_minutes: the same of minutes; worker 0's clock counts.
        others_wait: workers do not wait for one another in their pushes.
        tell: takes how each save ended.
        """
        self._saver = saver
        self._every_steps = every_steps
        self._every_seconds = every_minutes * 60 if every_minutes is not None else None
        self._last = time.monotonic()
        self._saved_step: int | None = None  # of the checkpoint that training has begun from
        self.begun_step: int | None = None
        """Of the state that was saved last, or is being saved."""
        self._others_wait = others_wait
        self._tell = tell
        self.newest: int | None = None
        """Worker 0: step of the newest whole checkpoint of this training; None: there is none."""

    def resumed(self, step: int) -> None:
        """The state after `step` steps lies in a checkpoint already."""
        self._saved_step = self.begun_step = self.newest = step

    @property
    def wanted(self) -> bool:
        """Whether worker 0 wishes for a save after the next step, because of the time that has passed."""
        return (
            self._saver is not None
            and self._every_seconds is not None
            and time.monotonic() - self._last >= self._every_seconds
        )

    def due(self, step: int, wished: bool) -> bool:
        """Whether the state after `step` steps is to be saved; the same on all workers."""
        return wished or bool(self._every_steps and step % self._every_steps == 0)

    def begin(self, state: TrainingState) -> None:
        """Begins a save between two steps; every worker calls it."""
        self._last, self.begun_step = time.monotonic(), state.step
        if self._others_wait:
            total(np.ones(1, np.int64))  # every worker's pushes have been applied
        if self._saver is not None:
            self._saver.begin(state.step, state)
        if self._others_wait:
            total(np.ones(1, np.int64))

    def tell_ended(self) -> None:
        """Tells of saves that have ended."""
        if self._saver is not None:
            for outcome in self._saver.outcomes():
                self._take(outcome)

    def settle(self) -> None:
        """Worker 0: waits for the save that is being written; the next one is full, whatever the tables say by then."""
        assert self._saver is not None
        self._saver.wait()
        self._saver.forget_base()
        self.tell_ended()

    def _take(self, outcome: Saved | NotSaved) -> None:
        if isinstance(outcome, Saved):
            self.newest = outcome.step
        self._tell(outcome)

    def finish(self, state: TrainingState) -> str:
        """Worker 0: saves the state after the last step unless that has been begun; returns the checkpoint's folder.

        Raises:
          RunError: it could not be saved.
        """
        assert self._saver is not None
        if state.step != self._saved_step:
            for outcome in self._saver.save(state.step, state):
                self._take(outcome)
        return self._saver.folder(state.step)
