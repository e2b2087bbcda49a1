"""The Job controller: what is begun, what counts, how a Job ends."""

from __future__ import annotations

import pytest

from tests.pods.job_controller import COMPLETE, FAILED, JobState, at, pod_began, pod_ended, wanted
from tests.pods.job_rules import FailureRule, JobRules, PodEnd

RENDERED = (
    FailureRule("FailJob", "worker", "In", (2,)),
    FailureRule("Ignore", disruptions=True),
    FailureRule("Ignore", "worker", "In", (75,)),
)
TWO = JobRules(completions=2, parallelism=2, indexed=True, backoff_limit=2, failure_rules=RENDERED)


def begun(rules: JobRules) -> JobState:
    state = JobState(began=0.0)
    for index in wanted(rules, state, 0.0):
        state = pod_began(state, index)
    return state


def end(code: int, disrupted: bool = False) -> PodEnd:
    return PodEnd({"worker": code}, disrupted)


def test_all_indexes_begin_at_once_and_a_job_is_complete_when_each_has_succeeded():
    state = begun(TWO)
    assert state.active == {0, 1}
    state, words = pod_ended(TWO, state, 1, end(0), 5.0)
    assert (state.outcome, words) == (None, "1 of 2 complete")
    state, _ = pod_ended(TWO, state, 0, end(0), 6.0)
    assert state.outcome is not None and state.outcome.status == COMPLETE
    assert wanted(TWO, state, 1e9) == []


def test_no_more_pods_than_its_parallelism_are_there():
    rules = JobRules(completions=3, parallelism=2)
    state = begun(rules)
    assert state.active == {0, 1}
    state, _ = pod_ended(rules, state, 0, end(0), 1.0)
    assert wanted(rules, state, 1.0) == [2]


def test_the_pause_before_a_new_pod_doubles_from_ten_seconds_to_ten_minutes_and_ends_with_a_success():
    rules = JobRules(completions=2, parallelism=2, backoff_limit=99)
    state, now, pauses = begun(rules), 0.0, []
    for _ in range(8):
        state, _ = pod_ended(rules, state, 0, end(1), now)
        pause = next(seconds for seconds in range(2000) if wanted(rules, state, now + seconds))
        pauses.append(pause)
        now += pause
        state = pod_began(state, 0)
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    state, _ = pod_ended(rules, state, 1, end(0), now)
    state, words = pod_ended(rules, state, 0, end(1), now)
    assert words.endswith("again in 10 s")


def test_more_counted_failures_than_the_limit_fail_the_job():
    state = begun(TWO)
    for number, index in enumerate((0, 1, 0)):
        assert state.outcome is None
        state, words = pod_ended(TWO, state, index, end(137), 100.0 * number)
        state = pod_began(state, index)
    assert words == "counted: 3 of backoffLimit 2"
    assert state.outcome is not None
    assert (state.outcome.status, state.outcome.reason) == (FAILED, "BackoffLimitExceeded")


@pytest.mark.parametrize("ending", [end(75), end(137, disrupted=True), end(1, disrupted=True)])
def test_what_the_policy_ignores_is_tried_again_for_ever_without_being_counted(ending):
    state, now = begun(TWO), 0.0
    for _ in range(20):
        state, words = pod_ended(TWO, state, 0, ending, now)
        assert "not counted" in words
        now += 600.0
        assert wanted(TWO, state, now) == [0]
        state = pod_began(state, 0)
    assert (state.counted, state.outcome) == (0, None)


def test_the_first_rule_that_an_end_meets_says_what_it_means():
    state, words = pod_ended(TWO, begun(TWO), 1, end(2, disrupted=True), 1.0)
    assert words == "fails the job: rule 0"
    assert state.outcome is not None and state.outcome.reason == "PodFailurePolicy"


def test_exit_codes_of_other_containers_meet_no_rule_and_success_never_does():
    rules = JobRules(failure_rules=(FailureRule("FailJob", "worker", "NotIn", (1,)), *RENDERED))
    _, words = pod_ended(rules, begun(rules), 0, PodEnd({"worker": 0, "other": 2}), 1.0)
    assert words.startswith("counted: 1")
    assert pod_ended(rules, begun(rules), 0, end(3), 1.0)[1] == "fails the job: rule 0"


def test_with_a_limit_for_each_index_the_others_go_on_and_the_job_fails_at_the_end():
    rules = JobRules(completions=2, parallelism=2, indexed=True, backoff_limit_per_index=1)
    state = begun(rules)
    state, _ = pod_ended(rules, state, 0, end(1), 0.0)
    assert wanted(rules, state, 5.0) == [] and wanted(rules, state, 10.0) == [0]
    state, words = pod_ended(rules, pod_began(state, 0), 0, end(1), 20.0)
    assert words == "counted: 2 of backoffLimitPerIndex 1"
    assert state.outcome is None and wanted(rules, state, 1e9) == []
    state, _ = pod_ended(rules, state, 1, end(0), 30.0)
    assert state.outcome is not None
    assert (state.outcome.reason, state.outcome.message) == ("FailedIndexes", "failed indexes: 0")


def test_an_index_that_a_rule_fails_is_not_tried_again_and_too_many_of_them_fail_the_job():
    rules = JobRules(
        completions=3,
        parallelism=3,
        backoff_limit_per_index=5,
        max_failed_indexes=1,
        failure_rules=(FailureRule("FailIndex", None, "In", (3,)),),
    )
    state, words = pod_ended(rules, begun(rules), 2, end(3), 0.0)
    assert words == "fails index 2: rule 0" and state.outcome is None
    state, _ = pod_ended(rules, state, 1, end(3), 1.0)
    assert state.outcome is not None and state.outcome.reason == "MaxFailedIndexesExceeded"


def test_a_job_fails_at_its_deadline():
    rules = JobRules(deadline_seconds=60)
    state = begun(rules)
    assert at(rules, state, 59.0) is state
    late = at(rules, state, 60.0)
    assert late.outcome is not None and late.outcome.reason == "DeadlineExceeded"
