"""Which run is meant: a job file or an output folder, and what the run has left there."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ps_cluster.errors import UserError
from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.report.status import Status
from ps_cluster.watch.endpoint import Endpoint, endpoints_of

DEFAULT_JOB = "job.yaml"


@dataclass(frozen=True)
class Place:
    """An output folder with a run in it."""

    output: str

    @property
    def endpoints(self) -> list[Endpoint]:
        """Processes that have told where they serve their figures."""
        return endpoints_of(self.output)

    @property
    def state(self) -> str | None:
        """What the launcher of `ps-cluster train` wrote down; `killed` where it wrote `running` and is gone. None: the
        processes were started by hand."""
        try:
            run = json.loads(Path(self.output, "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        state = run.get("state") if isinstance(run, dict) else None
        return "killed" if state == "running" and not self._is_held() else state

    def _is_held(self) -> bool:
        """Whether a launcher holds the folder."""
        try:
            lock = os.open(Path(self.output, ".lock"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False


class Events:
    """The events of a run, as far as they have been read."""

    def __init__(self, place: Place):
        self._path = Path(place.output, "events.jsonl")
        self._tail = EventsTail(self._path)
        self.status = Status()

    def read(self) -> list[dict[str, Any]]:
        """What has come since the last call; `status` knows it then.

        Raises:
          UserError: the file holds JSON that is no event of a run.
        """
        new = self._tail.read()
        for event in new:
            try:
                self.status.update(event)
            except (KeyError, TypeError, ValueError, AttributeError):
                kind = event.get("event")
                raise UserError(
                    f"{self._path}: expected events of a run, found one of kind {kind!r} without its fields"
                ) from None
        return new


def place_of(path: str | None) -> Place:
    """The place that a command's argument names: an output folder, or a job file (default: job.yaml).

    Raises:
      UserError: there is no such thing, or no run in it.
    """
    if path is None and not os.path.exists(DEFAULT_JOB):
        raise UserError(f"expected a job file or an output folder, found no argument and no {DEFAULT_JOB} here")
    path = path or DEFAULT_JOB
    if not os.path.exists(path):
        raise UserError(f"{path}: expected a job file or an output folder, found nothing")
    if os.path.isdir(path):
        output = os.path.abspath(path)
    else:
        from ps_cluster.job.load import load_job

        output = load_job(path).output
    if not any(os.path.exists(os.path.join(output, name)) for name in ("run.json", "events.jsonl", "metrics")):
        raise UserError(f"{output}: expected the output folder of a run, found none there")
    return Place(output)
