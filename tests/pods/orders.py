"""Orders to a run: which pod is disturbed, and how; what pods there are."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

from tests.pods import eviction
from tests.pods.control import Request
from tests.pods.live import Live
from tests.pods.objects import Cluster


def obey(
    request: Request,
    there: Sequence[Live],
    cluster: Cluster,
    delete: Callable[[Live], None],
    tell: Callable[[str], None],
) -> None:
    """Does what a request says, and answers it. delete: tells a pod to end, within its grace period."""
    if request.verb == "list":
        request.reply(True, pods=[_row(one) for one in there])
        return
    by_name = {name: one for one in there for name in (one.pod.host, one.pod.name)}
    for name in request.pods:
        if name not in by_name:
            known = ", ".join(one.pod.host for one in there)
            request.reply(False, why=f"there is no pod {name}, only {known}")
            return
    chosen = [by_name[name] for name in request.pods]
    for live in chosen:
        why = _disturb(request.verb, live, there, cluster, delete, tell)
        if why is not None:
            request.reply(False, why=f"{live.pod.host}: {why}")
            return
    prefix = chosen[0].container.into() if chosen and chosen[0].container is not None else []
    request.reply(True, prefix=prefix)


def _disturb(
    verb: str,
    live: Live,
    there: Sequence[Live],
    cluster: Cluster,
    delete: Callable[[Live], None],
    tell: Callable[[str], None],
) -> str | None:
    """Does it; returns why not, if so."""
    if live.container is None or live.link is None:
        return "its container does not run now"
    if verb == "into":
        return None
    if verb == "kill":
        tell(f"{live.name}: SIGKILL, as asked for")
        live.container.send(signal.SIGKILL)
    elif verb in ("drain", "preempt", "delete"):
        ready = [one.pod for one in there if one.is_ready and not one.deleted]
        replicas = live.pod.workload.replicas
        if verb == "drain" and (why := eviction.refused(live.pod, ready, replicas, cluster.budgets)):
            return why
        live.disrupted = verb != "delete"
        tell(f"{live.name}: {verb}, as asked for: told to end")
        delete(live)
    elif verb == "cut":
        live.link.cut()
        tell(f"{live.name}: link cut")
    elif verb == "mend":
        live.link.mend()
        tell(f"{live.name}: link mended")
    else:
        return f"{verb} is not known"
    return None


def _row(live: Live) -> dict[str, object]:
    state = "waits" if live.container is None else "ends" if live.deleted else "ready" if live.is_ready else "starts"
    pod, pid = live.pod, live.container.first_process if live.container is not None else 0
    return {"pod": pod.host, "state": state, "attempt": pod.attempt + 1, "address": pod.address, "pid": pid}
