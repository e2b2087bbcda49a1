"""Checkpoints while training goes on: begun between two steps, written beside the next ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ps_cluster.checkpoint.saver import NotSaved, Saved, Saver
from ps_cluster.train.collective import total


class PeriodicSaves:
    """What a worker does between two steps; every worker calls it after each step.

    With synchronous updates worker 0 alone begins a save after its step s: the pushes of step s have been applied on
    all PS then, and none of step s + 1 can be before worker 0's. With asynchronous updates the others wait meanwhile.
    """

    def __init__(
        self,
        saver: Saver | None,
        every_steps: int | None,
        others_wait: bool,
        tell: Callable[[Saved | NotSaved], None],
    ):
        """Args:
        saver: of worker 0; None on the others.
        every_steps: steps between two saves; None: no saves.
        others_wait: workers do not wait for one another in their pushes.
        tell: takes how each save ended.
        """
        self._saver = saver
        self._every_steps = every_steps
        self._others_wait = others_wait
        self._tell = tell

    def between_steps(self, step: int) -> None:
        """Begins a save when it is time after `step` steps; tells of those that have ended."""
        if self._every_steps and step % self._every_steps == 0:
            if self._others_wait:
                total(np.ones(1, np.int64))  # every worker's pushes have been applied
            if self._saver is not None:
                self._saver.begin(step)
            if self._others_wait:
                total(np.ones(1, np.int64))
        if self._saver is not None:
            for outcome in self._saver.outcomes():
                self._tell(outcome)

    def finish(self, step: int) -> str:
        """Worker 0: saves the state after the last step unless that has been begun; returns the checkpoint's folder.

        Raises:
          RunError: it could not be saved.
        """
        assert self._saver is not None
        for outcome in self._saver.save(step):
            self._tell(outcome)
        return self._saver.folder(step)
