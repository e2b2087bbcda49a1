"""The Job controller as a pure state machine: which pods there should be, which ends count, how the Job ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.pods.job_rules import JobRules, PodEnd

COMPLETE, FAILED = "Complete", "Failed"
FIRST_BACK_OFF_SECONDS = 10.0
MOST_BACK_OFF = 60
"""The longest pause, in first ones: ten minutes in Kubernetes."""


@dataclass(frozen=True)
class Outcome:
    """How a Job ended. status: Complete or Failed. reason: Kubernetes' word for it, then what it means."""

    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class JobState:
    """Where a Job stands.

    Attributes:
      active: indexes that have a pod.
      failures: counted failures by index.
      in_a_row: failures since a pod last succeeded, counted or not, by index where each index has its own limit, else
        under -1; the pause before the next pod doubles with each. However long pods ran meanwhile, as in Kubernetes.
      not_before: when the next pod may begin, by the same keys.
    """

    began: float
    active: frozenset[int] = frozenset()
    succeeded: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    failures: Mapping[int, int] = field(default_factory=dict)
    in_a_row: Mapping[int, int] = field(default_factory=dict)
    not_before: Mapping[int, float] = field(default_factory=dict)
    outcome: Outcome | None = None

    @property
    def counted(self) -> int:
        """Failures that count."""
        return sum(self.failures.values())


def wanted(rules: JobRules, state: JobState, now: float) -> list[int]:
    """Indexes to begin a pod for, now."""
    if state.outcome is not None:
        return []
    room = rules.parallelism - len(state.active)
    open_ones = [
        index
        for index in range(rules.completions)
        if index not in state.active | state.succeeded | state.failed
        and now >= state.not_before.get(_key(rules, index), state.began)
    ]
    return open_ones[: max(room, 0)]


def pod_began(state: JobState, index: int) -> JobState:
    """A pod of an index is there."""
    return replace(state, active=state.active | {index})


def pod_ended(
    rules: JobRules,
    state: JobState,
    index: int,
    end: PodEnd,
    now: float,
    first_back_off_seconds: float = FIRST_BACK_OFF_SECONDS,
) -> tuple[JobState, str]:
    """The state after a pod's end, and what that end meant for the Job, in words."""
    state, key = replace(state, active=state.active - {index}), _key(rules, index)
    if end.succeeded:
        state = replace(state, succeeded=state.succeeded | {index}, in_a_row={**state.in_a_row, key: 0})
        return _looked_over(rules, state), f"{len(state.succeeded)} of {rules.completions} complete"
    row = state.in_a_row.get(key, 0) + 1
    pause = first_back_off_seconds * min(2 ** (row - 1), MOST_BACK_OFF)
    state = replace(state, in_a_row={**state.in_a_row, key: row}, not_before={**state.not_before, key: now + pause})
    number, action = next(
        ((number, rule.action) for number, rule in enumerate(rules.failure_rules) if rule.meets(end)), (None, "Count")
    )
    if state.outcome is not None:
        return state, "the job has ended already"
    if action == "FailJob":
        message = f"pod {index} met rule {number} of podFailurePolicy, FailJob"
        return replace(state, outcome=Outcome(FAILED, "PodFailurePolicy", message)), f"fails the job: rule {number}"
    if action == "FailIndex":
        state = replace(state, failed=state.failed | {index})
        return _looked_over(rules, state), f"fails index {index}: rule {number}"
    again = f"again in {pause:g} s"
    if action == "Ignore":
        return state, f"not counted: rule {number} of podFailurePolicy; {again}"
    state = replace(state, failures={**state.failures, index: state.failures.get(index, 0) + 1})
    limit = rules.backoff_limit_per_index
    if limit is not None:
        words = f"counted: {state.failures[index]} of backoffLimitPerIndex {limit}"
        if state.failures[index] > limit:
            state = replace(state, failed=state.failed | {index})
            return _looked_over(rules, state), words
    else:
        words = f"counted: {state.counted} of backoffLimit {rules.backoff_limit}"
    state = _looked_over(rules, state)
    return state, words if state.outcome is not None else f"{words}; {again}"


def at(rules: JobRules, state: JobState, now: float) -> JobState:
    """The state when it is `now`: a deadline may have passed."""
    limit = rules.deadline_seconds
    if state.outcome is None and limit is not None and now - state.began >= limit:
        message = f"it ran longer than activeDeadlineSeconds, {limit:g} s"
        return replace(state, outcome=Outcome(FAILED, "DeadlineExceeded", message))
    return state


def _looked_over(rules: JobRules, state: JobState) -> JobState:
    """Ends the Job where it has to."""
    if state.outcome is not None:
        return state
    most = rules.max_failed_indexes
    if most is not None and len(state.failed) > most:
        return _failed(state, "MaxFailedIndexesExceeded", f"{len(state.failed)} indexes failed, {most} may")
    if rules.backoff_limit_per_index is None and state.counted > rules.backoff_limit:
        message = f"{state.counted} failures counted, {rules.backoff_limit} may be"
        return _failed(state, "BackoffLimitExceeded", message)
    if len(state.succeeded | state.failed) == rules.completions:
        if state.failed:
            return _failed(state, "FailedIndexes", f"failed indexes: {', '.join(map(str, sorted(state.failed)))}")
        return replace(state, outcome=Outcome(COMPLETE))
    return state


def _failed(state: JobState, reason: str, message: str) -> JobState:
    return replace(state, outcome=Outcome(FAILED, reason, message))


def _key(rules: JobRules, index: int) -> int:
    return index if rules.backoff_limit_per_index is not None else -1
