"""A launcher starts a failed job again, as often as the job file says, and tells what that costs."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.errors import RunError, UserError
from ps_cluster.job.failures_schema import Failures
from ps_cluster.launch.following import Failed
from ps_cluster.launch.output import Output
from ps_cluster.launch.processes import Ended
from ps_cluster.launch.progress import ProgressOf
from ps_cluster.launch.restarts import Failure, line_of, members_to_restart, refusal
from ps_cluster.launch.starting import memberships
from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile
from tests.ps_cluster.test_local import end_of, launch, log, output, processes_of, state  # noqa: F401

MEMBERS = memberships(["h:1", "h:2", "h:3", "h:4", "h:5"], 2, 2)


def failure(step: int = 7, status: int = -signal.SIGKILL, name: str = "ps 1", saved: int = 5) -> Failure:
    return Failure(Ended(name, status, Path("/nowhere.log")), step, saved, begun=step > 0)


def named(recovery: str, *names: str) -> list[str]:
    failed = [Ended(name, -9, Path("/nowhere.log")) for name in names]
    return [f"{one.role} {one.index}" for one in members_to_restart(recovery, MEMBERS, failed)]


def test_a_run_is_started_again_so_many_times() -> None:
    settings = Failures(max_restarts=2)
    assert refusal(settings, [failure(1)]) is None
    assert refusal(settings, [failure(1), failure(2)]) is None
    assert refusal(settings, [failure(1), failure(2), failure(3)]) == "2 times restarted (failures.max_restarts: 2)"


def test_without_restarts_nothing_is_said_about_them() -> None:
    assert refusal(Failures(max_restarts=0), [failure()]) == ""


def test_a_step_that_always_fails_ends_the_run() -> None:
    settings = Failures(max_restarts=100, same_step=3)
    assert refusal(settings, [failure(4), failure(9), failure(9)]) is None
    told = refusal(settings, [failure(4), failure(9), failure(9), failure(9)])
    assert told == "3 failures in a row at step 9 (failures.same_step: 3)"
    assert refusal(settings, [failure(9), failure(9), failure(10), failure(9)]) is None


def test_a_users_mistake_is_not_tried_again() -> None:
    assert refusal(Failures(), [failure(status=2)]) == ""


def test_what_fails_of_itself_before_the_first_step_is_not_tried_again() -> None:
    assert refusal(Failures(), [failure(step=0, status=1)]) == ""
    assert refusal(Failures(), [failure(step=0, status=75)]) is None
    assert refusal(Failures(), [failure(step=0)]) is None
    assert refusal(Failures(), [failure(step=3, status=1)]) is None


def test_the_recovery_of_the_job_starts_all_processes_again() -> None:
    assert named("job", "worker 1") == ["ps 0", "ps 1", "worker 0", "worker 1"]


def test_the_recovery_of_a_shard_starts_a_lost_ps_alone_and_of_workers_all() -> None:
    assert named("shard", "ps 1") == ["ps 1"]
    assert named("shard", "worker 1") == ["worker 0", "worker 1"]
    assert named("shard", "worker 1", "ps 0") == ["ps 0", "worker 0", "worker 1"]


def test_the_line_says_who_died_and_what_it_costs() -> None:
    everyone = line_of(Failures(), [failure()], MEMBERS, MEMBERS)
    assert everyone == (
        "ps 1 was killed by SIGKILL (the kernel does that when memory runs out) at step 7: all processes start again "
        "from the checkpoint of step 5, 2 steps back; restart 1 of 10"
    )
    alone = line_of(Failures(), [failure(), failure()], MEMBERS[1:2], MEMBERS)
    assert alone.endswith("ps 1 starts again alone, with its part of the checkpoint of step 5; restart 2 of 10")
    both = line_of(Failures(), [failure()], MEMBERS[1:], MEMBERS)
    assert "ps 1 and the workers start again from the checkpoint of step 5, 2 steps back" in both
    first = line_of(Failures(), [failure(saved=0)], MEMBERS[2:], MEMBERS)
    assert "the workers start again from the beginning: no checkpoint yet, 7 steps back" in first


def test_at_the_end_the_first_cause_is_told_and_the_last() -> None:
    error = Failed((failure(3), failure(4, 75, "worker 0")), "once restarted").error(Path("/"))
    assert isinstance(error, RunError)
    lines = str(error).splitlines()
    assert lines[0].startswith("ps 1 was killed by SIGKILL")
    assert "once restarted; the last failure: worker 0 ended with exit status 75" in lines


def test_progress_is_that_of_the_run_alone(tmp_path: Path) -> None:
    file = LastStepFile(str(tmp_path / LAST_STEP))
    file.write(LastStep(4, 32, 0, 0))
    (tmp_path / "events.jsonl").write_text('{"event": "checkpoint", "step": 3}\n')
    progress = ProgressOf(Output(tmp_path, "small", ""), str(tmp_path / "checkpoint"))
    assert progress.now() == (4, 0, False)
    with (tmp_path / "events.jsonl").open("a") as events:
        events.write('{"event": "resume", "step": 3, "checkpoint": "somewhere"}\n{"event": "checkpoint", "step": 5}\n')
    file.write(LastStep(6, 48, 0, 1))
    assert progress.now() == (6, 5, True)
    for step in (6, 9):  # that of step 9 is of an earlier run
        (tmp_path / "checkpoint" / f"step-{step:010d}").mkdir(parents=True)
        (tmp_path / "checkpoint" / f"step-{step:010d}" / "manifest.json").write_text("{}")
    assert progress.now() == (6, 6, True)


# --- Real processes --------------------------------------------------------------------------------------------------


def start(monkeypatch: pytest.MonkeyPatch, at: Path, failures: dict[str, Any], **modes: str) -> tuple[int, str, str]:
    monkeypatch.setenv("DRIVER_FAILURES", json.dumps(failures))
    return end_of(launch(at, **modes))


def restarts(at: Path) -> list[dict[str, Any]]:
    events = map(json.loads, (at / "events.jsonl").read_text().splitlines())
    return [event for event in events if event["event"] == "restart"]


def test_a_job_whose_worker_dies_goes_on_and_ends_with_0(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    status, out, err = start(monkeypatch, output, {"max_restarts": 1}, ps_0="wait", worker_0="trains, then dies")
    assert (status, err) == (0, "")
    assert "worker 0 was killed by SIGKILL" in out and "restart 1 of 1" in out
    (event,) = restarts(output)
    assert (event["who"], event["step"], event["restarted"]) == ("worker 0", 3, ["ps 0", "worker 0"])
    assert "runs as trains, then dies again" in log(output, "worker-0.restart-1")
    assert log(output, "ps-0.restart-1")
    assert state(output) == "finished"
    assert processes_of(output) == []


def test_a_lost_ps_is_started_alone(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    settings = {"recovery": "shard", "max_restarts": 1}
    status, out, err = start(monkeypatch, output, settings, ps_0="wait", ps_1="dies once", worker_0="trains for long")
    assert (status, err) == (0, "")
    assert "ps 1 starts again alone" in out
    assert [event["restarted"] for event in restarts(output)] == [["ps 1"]]
    assert not log(output, "worker-0.restart-1") and not log(output, "ps-0.restart-1")


def test_after_a_lost_worker_all_workers_start_again(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    settings = {"recovery": "shard", "max_restarts": 1}
    modes = {"ps_0": "wait", "worker_0": "trains, then dies", "worker_1": "finishes when asked again"}
    status, out, err = start(monkeypatch, output, settings, **modes)
    assert (status, err) == (0, "")
    assert "the workers start again from the beginning: no checkpoint yet, 3 steps back" in out
    assert [event["restarted"] for event in restarts(output)] == [["worker 0", "worker 1"]]
    assert not log(output, "ps-0.restart-1")


def test_a_run_that_fails_too_often_ends_with_1(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    settings = {"max_restarts": 10, "same_step": 2}
    status, _, err = start(monkeypatch, output, settings, ps_0="wait", worker_0="trains, then always dies")
    assert status == 1
    assert err.startswith("worker 0 ended with exit status 75")
    assert "2 failures in a row at step 3 (failures.same_step: 2); the last failure: worker 0 ended" in err
    assert state(output) == "failed"
    assert processes_of(output) == []


def test_a_users_mistake_after_a_restart_ends_the_run_with_2() -> None:
    error = Failed((failure(3), failure(4, 2, "worker 0")), "").error(Path("/"))
    assert isinstance(error, (RunError, UserError))
    assert "worker 0 ended with exit status 2" in str(error)
