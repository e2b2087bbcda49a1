"""Runs a cluster's pods until its Jobs have ended: a loop that looks at all of them, and does what is due."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.pods import control, image, job_controller, names, network, orders, policy
from tests.pods.advice import Advice, can_be_asked
from tests.pods.command_line import arguments
from tests.pods.container import Container, Volumes
from tests.pods.job_controller import COMPLETE, JobState
from tests.pods.job_rules import PodEnd
from tests.pods.live import Live
from tests.pods.memory import Memory
from tests.pods.objects import Cluster, Workload
from tests.pods.pods import Pod, environment
from tests.pods.probes import Asking
from tests.pods.words import how_it_ended, last_line, outcome_words

STOPPED = "everything was told to stop"
_LOOK_SECONDS = 0.05
_MOST_CRASH_PAUSE = 30
"""The longest pause before a container is started again in its pod, in first ones: five minutes in Kubernetes."""
_LONG_RUN_SECONDS = 600.0
"""After which a container that fails is no longer one that keeps failing."""


@dataclass(frozen=True)
class Options:
    """folder: for logs and volumes. first_back_off_seconds: before a failed pod's next attempt; it doubles."""

    folder: Path
    first_back_off_seconds: float = job_controller.FIRST_BACK_OFF_SECONDS


class Runner:
    """One run. `stop` may be called from a signal handler."""

    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        volumes: Volumes,
        memory: Memory,
        requests: control.Control,
        tell: Callable[[str], None],
    ):
        self._cluster, self._options, self._volumes, self._memory = cluster, options, volumes, memory
        self._requests, self._tell = requests, tell
        self._firewall = network.firewall() if cluster.policies else ""
        self._server = names.NameServer(network.NODE)
        self._addresses = network.Addresses()
        self._live: list[Live] = []
        self._attempts: dict[str, int] = {}
        self._links = self._limits = 0
        now = time.monotonic()
        self._jobs = {one.name: JobState(began=now) for one in cluster.workloads if one.rules is not None}
        self._causes: dict[str, str] = {}
        self._plain_ends: dict[str, int] = {}
        self._advice: dict[str, Advice] = {}
        self._ending = self._failed_job = ""
        self._at_once = False
        self._wishes = 0
        self._heeded = 0

    def stop(self) -> None:
        """Ends all pods, as if everything were deleted; a second time: at once."""
        self._wishes += 1

    def run(self) -> str | None:
        """Returns why it failed; None when it did not.

        Raises:
          UserError: a pod cannot be run here.
        """
        try:
            while True:
                now = time.monotonic()
                self._heed_signals(now)
                for request in self._requests.requests():
                    orders.obey(request, self._live, self._cluster, self._delete_now, self._tell)
                for live in list(self._live):
                    self._look_at(live, now)
                self._look_at_jobs(now)
                if not self._ending:
                    self._begin_pods(now)
                    self._end_when_over(now)
                self._let_know()
                self._read_advice()
                if self._ending and not self._live:
                    return self._failure()
                time.sleep(_LOOK_SECONDS)
        finally:
            self._end_everything()

    # What is due ------------------------------------------------------------------------------------------------------

    def _heed_signals(self, now: float) -> None:
        if self._wishes > self._heeded:
            self._heeded = self._wishes
            if self._heeded == 1:
                grace = max((one.pod.workload.template.grace_seconds for one in self._live), default=0)
                self._tell(f"told to stop: every pod ends, within {grace} s; told again: at once")
                self._ending = self._ending or STOPPED
                self._delete_all(STOPPED, now)
            else:
                self._at_once = True
                for live in self._live:
                    live.kill_at = now

    def _begin_pods(self, now: float) -> None:
        for workload in self._cluster.workloads:
            for number in self._wanted(workload, now):
                if workload.rules is not None:
                    self._jobs[workload.name] = job_controller.pod_began(self._jobs[workload.name], number)
                self._begin_pod(workload, number, now)

    def _wanted(self, workload: Workload, now: float) -> list[int]:
        if workload.rules is not None:
            return job_controller.wanted(workload.rules, self._jobs[workload.name], now)
        there = {one.pod.number for one in self._live if one.pod.workload is workload}
        if workload.kind == "Pod" and self._attempts.get(workload.name):
            return []  # nobody makes it again
        return [number for number in range(workload.replicas) if number not in there]

    def _begin_pod(self, workload: Workload, number: int, now: float) -> None:
        pod = Pod(workload, number, 0, self._addresses.next())
        attempt = self._attempts.get(pod.host, 0)
        self._attempts[pod.host] = attempt + 1
        pod = Pod(workload, number, attempt, pod.address)
        log = self._options.folder / "logs" / f"{pod.host}{f'.{attempt + 1}' if attempt else ''}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        live = Live(pod, log)
        self._live.append(live)
        self._let_know()
        self._begin_container(live, now)

    def _begin_container(self, live: Live, now: float) -> None:
        pod = live.pod
        told = pod.workload.template.container
        variables = environment(pod, self._cluster, image.variables())
        argv = arguments(pod, variables)
        live.container = self._start(pod, argv, live.log)
        self._links += 1
        live.link = network.Link(self._links, live.container.first_process, pod.address)
        self._let_know()
        live.container.begin()
        live.asking = Asking(told.probes, pod.address, live.container.into())
        live.began, live.again_at, live.told_wrong = now, 0.0, ""
        live.starts += 1
        often = f", start {live.starts}" if live.starts > 1 else ""
        self._tell(f"{live.name} started{often} ({pod.address}, log {live.log})")

    def _start(self, pod: Pod, argv: list[str], log: Path) -> Container:
        variables = environment(pod, self._cluster, image.variables())
        most = pod.workload.template.container.memory_bytes
        self._limits += 1
        limit = self._memory.limit(f"{pod.name}-{self._limits}", most) if most is not None else None
        return Container(pod, argv, variables, self._volumes, limit, log)

    def _look_at(self, live: Live, now: float) -> None:
        if live.container is None:
            if live.deleted:
                self._over(live, live.ended or 0, "", now)
            elif now >= live.again_at:
                self._begin_container(live, now)
            return
        code = live.container.exit_code()
        if code is not None:
            self._container_ended(live, code, now)
            return
        if live.kill_at is not None and now >= live.kill_at:
            live.kill_at = None
            live.container.killed_by = "SIGKILL after the grace period"
            live.container.send(signal.SIGKILL)
        assert live.asking is not None
        health = live.asking.health
        if health.ready != live.is_ready:
            live.is_ready = health.ready
            self._tell(f"{live.name} is ready" if health.ready else f"{live.name} is not ready: {live.asking.wrong}")
        if health.failed is not None and live.kill_at is None and not live.deleted and not live.told_wrong:
            live.told_wrong = f"{health.failed} failed: {live.asking.wrong}"
            self._tell(f"{live.name}: {live.told_wrong}: told to end")
            self._terminate(live, now)

    def _container_ended(self, live: Live, code: int, now: float) -> None:
        assert live.container is not None and live.asking is not None
        container, template = live.container, live.pod.workload.template
        live.asking.stop()
        message = container.message(code)
        starved = container.out_of_memory()
        words = how_it_ended(code, container, template.container.memory_bytes)
        if starved and can_be_asked(live.pod):
            role = template.container.argv[1]
            if role not in self._advice and not self._ending:
                log = self._options.folder / "logs" / f"plan-{role}.log"
                self._advice[role] = Advice(live.pod, self._start_planner, log)
        container.clean()
        if live.link is not None:
            live.link.close()
        live.container = live.link = live.asking = None
        live.is_ready = False
        if not starved and (line := last_line(message)):  # it had no time for words
            words += f": {line}"
        if template.always and not live.deleted:
            long = now - live.began >= _LONG_RUN_SECONDS
            first = self._options.first_back_off_seconds
            pause = first if long or not live.pause_seconds else 2 * live.pause_seconds
            live.pause_seconds = min(pause, _MOST_CRASH_PAUSE * first)
            live.again_at, live.ended, live.kill_at = now + live.pause_seconds, code, None
            self._tell(f"{live.name} {words}; the container is started again in {live.pause_seconds:g} s")
            return
        self._over(live, code, words, now)

    def _start_planner(self, pod: Pod, argv: list[str], log: Path) -> Container:
        container = self._start(pod, argv, log)
        container.begin()
        return container

    def _over(self, live: Live, code: int, words: str, now: float) -> None:
        """A pod is over, and what that means for its maker."""
        live.ended = code
        self._live.remove(live)
        workload = live.pod.workload
        if workload.rules is None:
            if workload.kind == "Pod":
                self._plain_ends[workload.name] = code
                if code:
                    self._causes[workload.name] = f"{live.name} {words}"
            self._tell(f"{live.name} {words}" if words else f"{live.name} is gone")
            return
        if self._ending == STOPPED:
            self._tell(f"{live.name} {words}")
            return
        end = PodEnd({workload.template.container.name: code}, live.disrupted)
        state, meaning = job_controller.pod_ended(
            workload.rules,
            self._jobs[workload.name],
            live.pod.number,
            end,
            now,
            self._options.first_back_off_seconds,
        )
        if code and self._jobs[workload.name].outcome is None:
            self._causes[workload.name] = f"{live.name} {words}"
        self._told_outcome(workload.name, state, now, f"{live.name} {words}; {meaning}")

    def _look_at_jobs(self, now: float) -> None:
        for workload in self._cluster.workloads:
            if workload.rules is not None:
                state = job_controller.at(workload.rules, self._jobs[workload.name], now)
                if state is not self._jobs[workload.name]:
                    self._told_outcome(workload.name, state, now, "")

    def _told_outcome(self, job: str, state: JobState, now: float, words: str) -> None:
        before, self._jobs[job] = self._jobs[job], state
        if words:
            self._tell(words)
        if before.outcome is None and state.outcome is not None:
            self._tell(f"job {job} {outcome_words(state.outcome)}")
            for live in self._live:
                if live.pod.workload.name == job and not live.deleted:
                    self._delete(live, now)

    def _end_when_over(self, now: float) -> None:
        outcomes = {name: state.outcome for name, state in self._jobs.items()}
        failed = [name for name, one in outcomes.items() if one is not None and one.status != COMPLETE]
        plain = [one for one in self._cluster.workloads if one.kind == "Pod" and not one.template.always]
        if failed:
            self._failed_job = failed[0]
            self._ending = f"job {failed[0]} has failed"
        elif outcomes and all(outcomes.values()):
            self._ending = "all jobs are complete"
        elif not outcomes and plain and all(one.name in self._plain_ends for one in self._cluster.workloads):
            self._ending = "all pods have ended"
        if self._ending:
            self._delete_all(self._ending, now)

    def _delete_all(self, why: str, now: float) -> None:
        for live in self._live:
            if not live.deleted:
                self._tell(f"{live.name}: told to end, since {why}")
                self._delete(live, now)

    def _delete(self, live: Live, now: float) -> None:
        live.deleted = True
        self._terminate(live, now)

    def _delete_now(self, live: Live) -> None:
        self._delete(live, time.monotonic())

    def _terminate(self, live: Live, now: float) -> None:
        if live.kill_at is None:
            live.kill_at = now if self._at_once else now + live.pod.workload.template.grace_seconds
        if live.container is not None:
            live.container.send(signal.SIGTERM)

    def _let_know(self) -> None:
        """Names and rules for packets follow the pods."""
        pods = [one.pod for one in self._live]
        self._server.known = names.records(self._cluster.services, pods, frozenset(self._ready_names()))
        if not self._firewall:
            return
        for live in self._live:
            if live.link is not None:
                rules = policy.admitted(live.pod, pods, self._cluster.policies, self._cluster.namespaces)
                live.link.admit(rules, self._firewall)

    def _ready_names(self) -> list[str]:
        return [one.pod.name for one in self._live if one.is_ready and not one.deleted]

    def _read_advice(self) -> None:
        for role, advice in self._advice.items():
            if advice.words is None and (words := advice.look()) is not None:
                self._tell(f"{role}: {words}")

    # The end ----------------------------------------------------------------------------------------------------------

    def _failure(self) -> str | None:
        if self._failed_job and (outcome := self._jobs[self._failed_job].outcome) is not None:
            return self._cause(f"job {self._failed_job} {outcome_words(outcome)}", self._failed_job)
        if self._ending == STOPPED:
            open_jobs = [name for name, state in self._jobs.items() if state.outcome is None]
            return f"job {open_jobs[0]} is not complete" if open_jobs else None
        if not self._jobs:
            for name, code in self._plain_ends.items():
                if code:
                    return self._cause(f"pod {name} has failed", name)
        return None

    def _cause(self, head: str, name: str) -> str:
        told = f"{head}: {self._causes[name]}" if name in self._causes else head
        for role, advice in self._advice.items():
            if any(one.name == name and one.template.container.argv[1] == role for one in self._cluster.workloads):
                told += f"; {advice.wait()}"
        return told

    def _end_everything(self) -> None:
        for live in self._live:
            if live.asking is not None:
                live.asking.stop()
            if live.container is not None:
                live.container.send(signal.SIGKILL)
        for live in self._live:
            if live.container is not None:
                live.container.wait()
                live.container.clean()
        for advice in self._advice.values():
            if advice.words is None:
                advice.stop()
