"""A job at a glance: from answers of its processes, and from what it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from ps_cluster.cli.main import main
from ps_cluster.errors import UserError
from ps_cluster.report import events
from ps_cluster.report.json_report import StepTimeReport, report_of
from ps_cluster.report.status import Status
from ps_cluster.train.step_time import PARTS
from ps_cluster.watch.endpoint import Endpoint, endpoints_at
from ps_cluster.watch.figures import of_report
from ps_cluster.watch.job_view import view
from ps_cluster.watch.place import Events, Place
from ps_cluster.watch.scrape import Scraped
from ps_cluster.watch.show import lines
from ps_cluster.watch.used import used_between

PS, WORKER = Endpoint("ps", 0, "a:1", 1, "a"), Endpoint("worker", 0, "a:2", 2, "a")
HALVES = {part: {"pull": 3.0, "compute": 3.0}.get(part, 0.0) for part in PARTS}


def answer(endpoint: Endpoint, time: float, **values: float) -> Scraped:
    samples = {(name, ()): value for name, value in values.items()}
    samples["ps_cluster_process_info", (("index", "0"), ("job_name", "clicks"), ("role", endpoint.role))] = 1.0
    return Scraped(endpoint, time, samples)


def worker(time: float, rows: float, pull: float, compute: float) -> Scraped:
    one = answer(WORKER, time, ps_cluster_rows_total=rows, ps_cluster_step=rows / 10, process_cpu_seconds_total=time)
    for part, seconds in (("pull", pull), ("compute", compute)):
        one.samples["ps_cluster_step_seconds_total", (("part", part), ("worker", "0"))] = seconds
    one.samples["ps_cluster_served_seconds_total", ()] = time
    one.samples["process_resident_memory_bytes", ()] = 2e9
    return one


def run_status(*more: events.Event) -> Status:
    status = Status()
    start = {"rows": 900, "steps_total": 90, "workers": 1, "ps": 1, "dense_parameters": 1, "data": "d", "model": "m"}
    step = {"step": 30, "epoch": 1, "loss": 0.5, "samples_per_second": 100.0, "rows": 300}
    one = events.step(**step, window_steps=20, step_time=[HALVES])
    for event in (events.start(**start, job="clicks"), one, one, *more):
        status.update(event)
    return status


def test_a_running_job_shows_what_went_by_between_two_looks():
    before, now = [worker(10.0, 100, pull=5, compute=0)], [worker(12.0, 300, pull=5.5, compute=1.5)]
    seen = view("running", run_status(), before, now)
    assert (seen.job, seen.state, seen.step, seen.steps_total) == ("clicks", "training", 30, 90)
    (process,) = seen.processes
    assert process.samples_per_second == 100
    assert process.cores == 1
    assert process.memory_bytes == 2_000_000_000
    assert process.shares == {**dict.fromkeys(PARTS, 0.0), "pull": 0.25, "compute": 0.75}
    assert lines(seen)[0] == "Job clicks: training, step 30/90, 100 samples/s, loss 0.5000, 0:06 left"
    assert lines(seen)[2].split()[:6] == ["worker", "0", "running", "30", "100", "2.0"]


def test_a_process_that_does_not_answer_is_shown_beside_those_that_do():
    silent = Scraped(PS, 12.0, problem="no answer in time")
    seen = view("running", run_status(), [], [silent, worker(12.0, 300, 1, 1)])
    assert seen.state == "training"
    assert [process.state for process in seen.processes] == ["does not answer: no answer in time", "running"]
    assert not seen.has_ended


def test_an_ended_job_shows_what_its_events_kept():
    used = [vars(one) for one in used_between([], [worker(50.0, 300, 1, 1)])]
    silent = [Scraped(one, 99.0, problem="the run has ended") for one in (PS, WORKER)]
    seen = view("failed", run_status(events.processes(processes=used)), [], silent)
    assert seen.has_ended
    assert [process.state for process in seen.processes] == ["ended", "ended"]
    assert seen.processes[1].shares is not None
    assert seen.processes[1].shares["pull"] == 0.5
    assert seen.processes[1].memory_bytes == 2_000_000_000


def test_processes_started_by_hand_need_no_launcher():
    assert view(None, Status(), [], [worker(1.0, 1, 1, 1)]).state == "running"
    assert view(None, Status(), [], [Scraped(PS, 1.0, problem="gone")]).state == "no process answers"


def test_a_report_holds_the_step_times_of_all_windows_and_what_processes_used():
    used = [vars(one) for one in used_between([], [worker(50.0, 300, 1, 1)])]
    status = run_status()
    step = status.last["step"]
    report = report_of([status.last["start"], step, step, events.processes(processes=used)])
    figures = of_report(report, "here")
    assert figures.steps == 40
    assert figures.step_time[0].pull == 6.0
    assert figures.processes[0].cpu_seconds == 50.0


@pytest.mark.parametrize("seconds", [None, 0.0, -1.0])
def test_a_report_whose_step_times_are_none_is_refused(seconds: float | None):
    status = run_status()
    times = [] if seconds is None else [StepTimeReport(**dict.fromkeys(PARTS, seconds))]
    report = report_of([status.last["start"], status.last["step"]]).model_copy(update={"step_time": times})
    with pytest.raises(UserError, match="here: step_time: expected seconds"):
        of_report(report, "here")


@pytest.mark.parametrize("restarted", [False, True])
def test_counters_of_a_process_that_was_started_anew_count_from_its_start(restarted: bool):
    before, after = worker(10.0, 1, 1, 1), worker(7.0 if restarted else 14.0, 1, 1, 1)
    (used,) = used_between([before], [after])
    assert used.seconds == (7.0 if restarted else 4.0)


def test_an_event_without_its_fields_is_named_with_its_file(tmp_path: Path):
    (tmp_path / "events.jsonl").write_text('{"event": "step"}\n')
    with pytest.raises(UserError, match=r"events\.jsonl: expected events of a run, found one of kind 'step'"):
        Events(Place(str(tmp_path))).read()


@pytest.mark.parametrize("address", ["here", "here:x", ":9100", "here:70000", ""])
def test_an_address_without_host_or_port_is_refused(address: str):
    with pytest.raises(UserError, match="--address: expected HOST:PORT"):
        endpoints_at(["here:9100", address])


@pytest.mark.parametrize("seconds", ["-5", "0", "nan", "inf"])
def test_a_running_job_is_watched_for_a_time_above_0(seconds: str, capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "absent", "--seconds", seconds]) == 2
    assert capsys.readouterr().err.startswith("--seconds: expected a number above 0")
