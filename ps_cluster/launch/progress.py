"""How far a run has come, from what its worker 0 writes down."""

from __future__ import annotations

from pathlib import Path

from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.launch.output import Output
from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile


class ProgressOf:
    """Follows a run that is about to start in `output`; what an earlier one left there is not its own.

    checkpoints: the folder of its checkpoints, or an address, of which the events alone tell.
    """

    def __init__(self, output: Output, checkpoints: str):
        self._path = output.folder / LAST_STEP
        self._checkpoints = None if "://" in checkpoints else Path(checkpoints)
        self._events = EventsTail(output.events, new_only=True)
        self._before = self._last_step()
        self._saved = 0

    def now(self) -> tuple[int, int, bool]:
        """The step that was finished last, the step of the newest finished checkpoint (0: none is known), and whether
        the run has trained at all."""
        for event in self._events.read():
            if event.get("event") == "checkpoint" or (event.get("event") == "resume" and event.get("checkpoint")):
                self._saved = event["step"]
        last = self._last_step()
        step = last.step if last else 0
        # Worker 0 tells of a checkpoint after its next step; it may have died before.
        newer = [found for found in self._finished() if self._saved < found <= step]
        return step, max([self._saved, *newer]), last is not None and step > 0 and last != self._before

    def _finished(self) -> list[int]:
        if self._checkpoints is None:
            return []
        names = [path.parent.name.removeprefix("step-") for path in self._checkpoints.glob("step-*/manifest.json")]
        return [int(name) for name in names if name.isdigit()]

    def _last_step(self) -> LastStep | None:
        if not self._path.exists():
            return None
        file = LastStepFile(str(self._path))
        try:
            return file.read()
        finally:
            file.close()
