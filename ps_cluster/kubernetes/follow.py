"""Following a run to its end: worker 0's log as it comes, what pods wait for, and how it ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ps_cluster.errors import RunError
from ps_cluster.kubernetes.cluster_run import ClusterRun, End, end_of
from ps_cluster.kubernetes.jobs import WRONG_INPUT
from ps_cluster.kubernetes.kubectl import selected
from ps_cluster.kubernetes.names import selector

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
_PAUSE_SECONDS = 2.0
_UNREACHABLE_SECONDS = 300.0


def follow(run: ClusterRun, pause_seconds: float = _PAUSE_SECONDS) -> int:
    """Prints until the run has ended; returns its exit code: 0 complete, 2 wrong job file, 1 failed otherwise.

    Raises:
      RunError: the cluster cannot be reached for five minutes, or the run was deleted.
    """
    shown: set[str] = set()
    told = ""
    while True:
        workers = _patiently(run.workers)
        if workers is None:
            raise RunError(f"{run.job}: the run was deleted")
        end = end_of(workers)
        first = {**selector(run.job, "worker"), INDEX_LABEL: "0"}
        pod = _newest(_patiently(lambda: run.kubectl.objects("pods", first)))  # noqa: B023 - asked at once
        if pod is not None and pod["metadata"]["uid"] not in shown and pod["status"].get("phase") != "Pending":
            shown.add(pod["metadata"]["uid"])
            _show_log(run, pod["metadata"]["name"])
            continue
        if end is not None:
            return _tell_end(run, end, "ps")
        servers = _patiently(run.servers)
        lost = end_of(servers) if servers is not None else None
        if lost is not None and not lost.complete:
            return _tell_end(run, lost, "worker")
        waiting = _waits_for(_patiently(lambda: run.kubectl.objects("pods", selector(run.job))))
        if waiting != told:
            told = waiting
            if waiting:
                print(waiting, file=sys.stderr, flush=True)
        time.sleep(pause_seconds)


def _patiently(ask: Callable[[], Any]) -> Any:
    """A network that is gone for a moment ends nothing."""
    begun = time.monotonic()
    while True:
        try:
            return ask()
        except RunError:
            if time.monotonic() - begun > _UNREACHABLE_SECONDS:
                raise
            time.sleep(5.0)


def _newest(pods: list[dict[str, Any]]) -> dict[str, Any] | None:
    return max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), default=None)


def _show_log(run: ClusterRun, pod: str) -> None:
    process = run.kubectl.popen("logs", "--follow", pod, stdin=subprocess.DEVNULL)
    try:
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _waits_for(pods: list[dict[str, Any]]) -> str:
    """Why the first pod that has no place yet has none."""
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["name"]):
        if pod["status"].get("phase") != "Pending":
            continue
        reasons = [
            one["state"]["waiting"].get("message") or one["state"]["waiting"].get("reason", "")
            for one in pod["status"].get("containerStatuses", [])
            if "waiting" in one.get("state", {})
        ]
        reasons += [
            one.get("message", "") for one in pod["status"].get("conditions", []) if one.get("status") == "False"
        ]
        if said := next((reason for reason in reasons if reason), ""):
            return f"{pod['metadata']['name']} waits: {said}"
    return ""


def _tell_end(run: ClusterRun, end: End, others: str) -> int:
    """others: the role whose Job has not ended, and would go on in vain."""
    if end.complete:
        return 0
    print(f"{run.job}: the run has failed: {end.reason}: {end.message}", file=sys.stderr)
    for role in ("worker", "ps"):
        for name, code, message in _last_words(run.kubectl.objects("pods", selector(run.job, role))):
            print(f"{name} ended with status {code}: {message}", file=sys.stderr)
    # PS would wait 15 minutes more for workers that do not come, workers would start again and again.
    run.kubectl.run("delete", "jobs", "--selector", selected(selector(run.job, others)), "--wait=false")
    return WRONG_INPUT if end.reason == "PodFailurePolicy" else 1


def _last_words(pods: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    found = []
    for pod in pods:
        for one in pod["status"].get("containerStatuses", []):
            ended = one.get("state", {}).get("terminated")
            if ended and ended.get("exitCode"):
                words = (ended.get("message") or ended.get("reason") or "").strip().splitlines()
                if ended.get("reason") == "OOMKilled":  # it had no time for words; the message is what it said before
                    limit = pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
                    words = [f"it wanted more memory than its {limit}; `ps-cluster plan` says how much it needs"]
                found.append((pod["metadata"]["name"], ended["exitCode"], words[-1] if words else ""))
    return sorted(found)
