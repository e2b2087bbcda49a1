"""Where a run stands, put together from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SMOOTHING = 0.3  # weight of the newest window in the speed that the remaining time is computed from


class Status:
    """The last event of every kind, what goes on now, and how long training will still take."""

    def __init__(self) -> None:
        self.last: dict[str, Mapping[str, Any]] = {}
        self.saved: dict[str, str] = {}
        self.reading: dict[str, Mapping[str, Any]] = {}
        """By side, `train` and `test`: the event of that kind."""
        self.phase = "start"
        """`start`, `count`, `train`, `wait`, `evaluate`, `save`, `export`, `done`."""
        self.step_time: list[dict[str, float]] = []
        """By worker: seconds of each part of its steps, over all step events."""
        self.timed_steps = 0
        """Steps that `step_time` is of."""
        self._speed: float | None = None

    def update(self, event: Mapping[str, Any]) -> bool:
        """Take in an event; True when a new phase begins with it."""
        kind, before = event["event"], self.phase
        self.last[kind] = event
        if kind == "start" or kind == "step":
            self.phase = "train"
        elif kind == "restart":
            self.phase = "start"
        elif kind == "phase":
            self.phase = event["name"]
        elif kind == "reading":
            self.reading[event["side"]] = event
        elif kind == "saved":
            self.saved[event.get("what", "checkpoint")] = event["path"]
        elif kind == "done":
            self.phase = "done"
        if kind == "step":
            speed = float(event["samples_per_second"])
            self._speed = speed if self._speed is None else self._speed + _SMOOTHING * (speed - self._speed)
            self._add_step_time(event)
        return self.phase != before

    def _add_step_time(self, event: Mapping[str, Any]) -> None:
        self.timed_steps += event.get("window_steps", 0)
        for worker, parts in enumerate(event.get("step_time", [])):
            if worker == len(self.step_time):
                self.step_time.append({})
            of_worker = self.step_time[worker]
            for part, seconds in parts.items():
                of_worker[part] = of_worker.get(part, 0.0) + seconds

    @property
    def label(self) -> str:
        """What goes on, as a word."""
        names = {
            "start": "starting",
            "count": "counting",
            "train": "training",
            "wait": "waiting for files",
            "evaluate": "evaluating",
            "save": "saving",
        }
        return names.get(self.phase, "exporting" if self.phase == "export" else self.phase)

    @property
    def progress(self) -> tuple[int | None, int | None]:
        """How much of the current phase is done, and of how much; None where not known."""
        if self.phase == "train":
            return self.last.get("step", {}).get("step", 0), self.last.get("start", {}).get("steps_total")
        event = self.last.get("phase", {})
        if event.get("name") != self.phase:
            return None, None
        return event.get("done"), event.get("total")

    @property
    def newest_event_time(self) -> float | None:
        """Of the newest row that was trained on, in seconds since 1970; None where that is not told."""
        told = [self.last[kind] for kind in ("step", "file") if kind in self.last]
        times = [float(one["newest_event_time"]) for one in told if one.get("newest_event_time") is not None]
        return max(times, default=None)

    @property
    def unit(self) -> str:
        """What `progress` counts."""
        return "steps" if self.phase == "train" else self.last.get("phase", {}).get("unit", "rows")

    @property
    def remaining_seconds(self) -> float | None:
        """Time to the last step at the recent speed; None when there is no telling."""
        step, (done, total) = self.last.get("step"), self.progress
        if self.phase != "train" or not step or not done or not total or not self._speed:
            return None
        rows_per_step = step["rows"] / done
        return (total - done) * rows_per_step / self._speed
