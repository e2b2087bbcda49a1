"""Whether a failed job starts again, which of its processes do, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ps_cluster.errors import RESTART
from ps_cluster.job.failures_schema import Failures
from ps_cluster.job.membership import Membership
from ps_cluster.launch.cause import ending, said
from ps_cluster.launch.processes import Ended

MISTAKE = 2
"""Exit status of what the user has to change: it is the same the next time."""


@dataclass(frozen=True)
class Failure:
    """A failure of a running job.

    cause: the process that it began with. step: steps that were trained by then, as far as was told. saved: step of
    the newest checkpoint that was told. begun: a step has been trained since the launcher started.
    """

    cause: Ended
    step: int
    saved: int
    begun: bool


def refusal(settings: Failures, failures: Sequence[Failure]) -> str | None:
    """Why the newest of a run's failures ends it, a line for a person, empty where nothing need be said; None: the run
    starts again."""
    newest = failures[-1]
    if newest.cause.status == MISTAKE or not settings.max_restarts:
        return ""
    if newest.cause.status > 0 and newest.cause.status != RESTART and not newest.begun:
        return ""  # it never worked
    alike = 0
    for failure in reversed(failures):
        if failure.step != newest.step:
            break
        alike += 1
    if alike >= settings.same_step:
        return f"{alike} failures in a row at step {newest.step} (failures.same_step: {settings.same_step})"
    if len(failures) > settings.max_restarts:
        return f"{_times(settings.max_restarts)} restarted (failures.max_restarts: {settings.max_restarts})"
    return None


def members_to_restart(recovery: str, members: Sequence[Membership], failed: Sequence[Ended]) -> list[Membership]:
    """Processes that start again after some have failed; those of them that still run are stopped before."""
    if recovery == "job":
        return list(members)
    names = {end.name for end in failed}
    lost_worker = any(name.startswith("worker") for name in names)
    return [
        member
        for member in members
        if f"{member.role} {member.index}" in names or (lost_worker and member.role == "worker")
    ]


def line_of(
    settings: Failures, failures: Sequence[Failure], restarted: Sequence[Membership], members: Sequence[Membership]
) -> str:
    """The line about a restart: who died, how, what that costs, what goes on. members: all of the cluster."""
    newest = failures[-1]
    words = said(newest.cause)
    why = f": {words[-1]}" if words else ""
    lost_ps = " and ".join(f"ps {member.index}" for member in restarted if member.role == "ps")
    if all(member.role == "ps" for member in restarted):
        each = "each with" if len(restarted) > 1 else "with"
        part = f"{each} its part of the checkpoint of step {newest.saved}"
        cost = part if newest.saved else "with empty tables: there is no checkpoint yet"
        again = f"{lost_ps} {'start' if len(restarted) > 1 else 'starts'} again alone, {cost}"
    else:
        who = f"{lost_ps} and the workers" if lost_ps else "the workers"
        where = f"the checkpoint of step {newest.saved}" if newest.saved else "the beginning: no checkpoint yet"
        lost = max(newest.step - newest.saved, 0)
        cost = f"{lost} {'step' if lost == 1 else 'steps'} back"
        again = f"{'all processes' if len(restarted) == len(members) else who} start again from {where}, {cost}"
    died = f"{ending(newest.cause)} at step {newest.step}{why}"
    return f"{died}: {again}; restart {len(failures)} of {settings.max_restarts}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
