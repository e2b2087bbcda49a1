"""Following a local cluster to its end, through the failures that it is started again after."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Union

from ps_cluster.errors import RESTART, RunError, UserError
from ps_cluster.job.membership import Membership, Role
from ps_cluster.launch.asked import Asked
from ps_cluster.launch.cause import cause_of, ending, error_of, said
from ps_cluster.launch.last_words import drained_line
from ps_cluster.launch.processes import Ended, Processes
from ps_cluster.launch.progress import ProgressOf
from ps_cluster.launch.restarts import MISTAKE, Failure, line_of, members_to_restart, refusal
from ps_cluster.launch.screen import Screen
from ps_cluster.launch.starting import Starter, name_of
from ps_cluster.report import events
from ps_cluster.report.event_log import EventLog

# A failure spreads from process to process within moments; the one it began with may be the last to be gone.
SETTLE_SECONDS = 1.0
# Together with settling, and with the two seconds SIGKILL is given twice at the very worst: under ten.
WORKER_GRACE_SECONDS = 3.0
PS_GRACE_SECONDS = 1.5
_POLL_SECONDS = 0.1
_GO_ON = "drained; start again with --resume to go on"


@dataclass(frozen=True)
class Failed:
    """A run that ended by its failures, the last of which it was not started again after.

    refused: why not, for a person; empty where nothing need be said.
    """

    failures: tuple[Failure, ...]
    refused: str

    def error(self, folder: Path) -> UserError | RunError:
        """What is told: the first cause, and the last one. folder: the run's output."""
        first, last = self.failures[0].cause, self.failures[-1].cause
        if len(self.failures) == 1 or last.status == MISTAKE:
            return error_of(last, folder)
        words = said(last)
        more = [f"{self.refused}; the last failure: {ending(last)}" if self.refused else f"then {ending(last)}"]
        return error_of(first, folder, [*more, *(f"  {word}" for word in words), f"  log: {last.log}"])


@dataclass(frozen=True)
class Drained:
    """A run whose workers were asked to end and have saved where it stands; `words`: what they say of it."""

    words: str


End = Union[Literal["done", "asked"], Drained, Failed]


def follow(starter: Starter, members: Sequence[Membership], asked: Asked, notes: Screen) -> End:
    """Waits for the end of a started cluster; restarts it after failures as the job file says.

    Returns:
      `done`: all workers ended well. `asked`: somebody asked the launcher to end; some processes may still run.

    Raises:
      RunError: a process could not be stopped or started.
    """
    settings = starter.job_file.job.failures
    failures: list[Failure] = []
    progress = ProgressOf(starter.output, starter.job_file.checkpoints)
    while True:
        failed = _wait(starter.processes, members, asked)
        if failed is None:
            return _end_as_asked(starter, members, asked, notes)
        if not failed:
            return "done"
        words = drained_line(failed[0].log) if all(end.status == RESTART for end in failed) else None
        if words is not None:
            return Drained(words)
        step, saved, begun = progress.now()
        failures.append(Failure(cause_of(failed), step, saved, begun))
        refused = refusal(settings, failures)
        if refused is not None:
            return Failed(tuple(failures), refused)
        again = members_to_restart(settings.recovery, members, failed)
        _tell(starter, failures, again, members, notes)
        # What is left of a broken job has nothing to save.
        stuck = starter.processes.stop([name_of(member) for member in again], grace_seconds=0)
        if stuck:
            raise RunError("\n".join(stuck))
        for member in again:
            starter.start(member, len(failures))


def stop(processes: Processes, members: Sequence[Membership], asked: Asked) -> None:
    """Stops the workers, then the PS: a worker that ends in order may still need its PS.

    Raises:
      RunError: one does not end, not even by SIGKILL.
    """
    times = asked.times
    stuck = []
    roles: tuple[tuple[Role, float], ...] = (("worker", WORKER_GRACE_SECONDS), ("ps", PS_GRACE_SECONDS))
    for role, grace_seconds in roles:
        names = [name_of(member) for member in members if member.role == role]
        stuck += processes.stop(names, grace_seconds, hurry=lambda: asked.times > times)
    if stuck:
        raise RunError("\n".join(stuck))


def _end_as_asked(starter: Starter, members: Sequence[Membership], asked: Asked, notes: Screen) -> End:
    name = "Ctrl-C" if asked.first == signal.SIGINT else signal.Signals(asked.first or 0).name
    if asked.first == signal.SIGHUP:  # nobody is there to wait any more
        notes.write(f"{name}: stopping\n")
        return "asked"
    grace_seconds = starter.job_file.job.checkpoint.grace_seconds
    notes.write(
        f"{name}: the workers have {grace_seconds:g} s to save where training stands; a second one stops at once\n"
    )
    drained = _drain(starter.processes, members, asked, grace_seconds)
    if drained is None:
        return "asked"
    return Drained(drained_line(drained[0].log) or _GO_ON) if drained else "done"


def _drain(
    processes: Processes, members: Sequence[Membership], asked: Asked, grace_seconds: float
) -> list[Ended] | None:
    """Asks the workers to end, and waits for them, a second signal, or the end of the grace.

    Returns:
      Those that have saved where training stands and ended there, [] when the job was done before; None when a worker
      did neither.
    """
    times = asked.times
    workers = [name_of(member) for member in members if member.role == "worker"]
    processes.terminate(workers, grace_seconds, hurry=lambda: asked.times > times)
    ended = [end for end in processes.ended() if end.name in workers]
    if len(ended) < len(workers) or any(end.status not in (0, RESTART) for end in ended):
        return None
    return [end for end in ended if end.status == RESTART]


def _wait(processes: Processes, members: Sequence[Membership], asked: Asked) -> list[Ended] | None:
    """[]: all workers ended well. None: one was asked to end. Else the processes that failed."""
    workers = {name_of(member) for member in members if member.role == "worker"}
    settled: float | None = None
    while True:
        ended = processes.ended()
        failed = [end for end in ended if end.status != 0 or end.name not in workers]
        if failed:
            settled = settled or time.monotonic() + SETTLE_SECONDS
            if time.monotonic() >= settled or len(ended) == len(members):
                return failed
        elif len(ended) == len(workers):
            return []
        if asked.first is not None:
            return None
        time.sleep(_POLL_SECONDS)


def _tell(
    starter: Starter,
    failures: Sequence[Failure],
    again: Sequence[Membership],
    members: Sequence[Membership],
    notes: Screen,
) -> None:
    settings, newest = starter.job_file.job.failures, failures[-1]
    line = line_of(settings, failures, again, members)
    event = events.restart(
        who=newest.cause.name,
        status=newest.cause.status,
        step=newest.step,
        checkpoint_step=newest.saved,
        restarted=[name_of(member) for member in again],
        restart=len(failures),
        told=line,
    )
    try:
        with EventLog(str(starter.output.events)) as log:
            log.append(event)
    except (OSError, RunError):  # whoever reads the events does not see it
        notes.write(f"{line}\n")
