"""A running job seen from outside: where its time goes while processes are held up in turn, status, doctor, traces."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ps_cluster.train.step_time import PARTS
from ps_cluster.watch.endpoint import endpoints_of
from ps_cluster.watch.scrape import scrape
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, command, job

HELD_SECONDS = 2.0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("run")
    small_cluster.write_samples(folder)
    changes = {"training__epochs": 1_000_000, "training__log_every_steps": 5, "cluster__workers": 2, "cluster__ps": 1}
    run = small_cluster.start(folder, job(**changes))
    try:
        run.until(lambda: len(run.events("step")) >= 2)
        yield run
    finally:
        run.kill_rest()


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def seconds_held(run: Run, *pids: int) -> list[dict[str, float]]:
    """By worker, the parts of its steps from before a time in which all of training stood still, because processes were
    stopped, until after it."""
    before, steps = len(run.events("step")), -1
    with stopped(*pids):
        while steps != len(run.events("step")):  # what was read ahead is trained first
            steps = len(run.events("step"))
            time.sleep(HELD_SECONDS)
    run.until(lambda: len(run.events("step")) > steps + 1)
    windows = [event["step_time"] for event in run.events("step")[before:]]
    return [{part: sum(window[worker][part] for window in windows) for part in PARTS} for worker in (0, 1)]


def test_waiting_for_a_ps_counts_as_pull_and_push(run: Run):
    # A worker whose embeddings had just come waits in the all-reduce for the other one.
    parts = max(seconds_held(run, run.pid_of("ps", 0)), key=lambda one: one["pull"] + one["push"])
    assert parts["pull"] + parts["push"] > 0.8 * HELD_SECONDS, parts
    assert parts["pull"] + parts["push"] > 0.5 * sum(parts.values()), parts


def test_waiting_for_samples_counts_as_input_and_waiting_for_that_worker_as_all_reduce(run: Run):
    worker = run.pid_of("worker", 1)
    reader = next(pid for pid, line in run.processes().items() if "arrow_server" in line and parent(pid) == worker)
    waiting, slow = seconds_held(run, reader)
    assert slow["input"] > 0.8 * HELD_SECONDS, slow
    assert waiting["all_reduce"] > 0.8 * HELD_SECONDS, waiting
    assert waiting["input"] < 0.5 * slow["input"], (waiting, slow)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_every_process_tells_its_figures(run: Run):
    answers = {one.endpoint.name: one for one in scrape(endpoints_of(str(run.output)), limit_seconds=60)}
    assert [one.problem for one in answers.values()] == [None] * 3
    assert list(answers) == ["ps 0", "worker 0", "worker 1"]
    for one in answers.values():
        assert (one.value("process_resident_memory_bytes") or 0) > 1e8
    assert (answers["worker 0"].value("ps_cluster_children_resident_bytes") or 0) > 1e7  # its reader
    run.until(lambda: run.events("processes"))  # asked together with the tables
    (first,) = scrape([answers["worker 0"].endpoint], limit_seconds=60)
    assert (first.value("ps_cluster_table_rows", table="items", ps="0") or 0) > 1
    assert (first.value("ps_cluster_gradient_norm") or 0) > 0
    assert (first.value("ps_cluster_window_calibration_ratio") or 0) > 0
    assert answers["worker 1"].value("ps_cluster_loss") is None


def test_status_shows_all_processes_and_says_who_does_not_answer(run: Run):
    with stopped(run.pid_of("ps", 0)):
        shown = command(run.folder, "status", "job.yaml", "--once")
    assert shown.returncode == 0, shown.stderr
    title, header, ps, *workers = shown.stdout.splitlines()
    assert title.startswith("Job clicks: training, step ")
    columns = "process state step samples/s memory cores input pull compute reduce push ckpt other"
    assert " ".join(header.split()) == columns
    assert ps.startswith("ps 0      does not answer: no answer in time")
    assert [line.split()[:3] for line in workers] == [["worker", "0", "train"], ["worker", "1", "train"]]
    addresses = ",".join(one.address for one in endpoints_of(str(run.output)))
    seen = json.loads(command(run.folder, "status", "--address", addresses, "--once", "--json").stdout)
    assert [(process["name"], process["answers"]) for process in seen["processes"]] == [
        ("ps 0", True),
        ("worker 0", True),
        ("worker 1", True),
    ]


def test_doctor_reads_the_running_job(run: Run):
    told = command(run.folder, "doctor", "job.yaml", "--seconds", "1", "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert found["verdict"] in ("none", *(finding["layer"] for finding in found["findings"]))


def test_doctor_makes_do_with_the_events_when_a_worker_does_not_answer(run: Run):
    with stopped(run.pid_of("worker", 1)):
        told = command(run.folder, "doctor", "job.yaml", "--seconds", "1", "--json")
    assert told.returncode == 0, told.stderr
    assert "worker 1 at " in told.stderr and "no answer in time; what follows is of all steps so far" in told.stderr
    assert sum(json.loads(told.stdout)["shares"].values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("flags", "below"), [((), "."), pytest.param(("--worker", "1"), "worker-1", marks=pytest.mark.slow)]
)
def test_a_trace_of_some_steps_opens_in_chrome(run: Run, flags: tuple[str, ...], below: str):
    told = command(run.folder, "trace", "job.yaml", "--steps", "2", *flags)
    assert told.returncode == 0, told.stderr
    (path,) = (run.output / "tensorboard" / below).glob("plugins/profile/*/trace.json.gz")
    assert str(path) in told.stdout
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {event["name"] for event in events if event["ph"] == "X"}
    assert any("PsClusterRouteIds" in name for name in names), sorted(names)[:50]
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_a_stopped_job_is_shown_and_judged_by_what_it_left(run: Run):
    run.launcher.send_signal(signal.SIGTERM)
    run.wait()
    shown = command(run.folder, "status")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("Job clicks: stopped, step ")
    assert "ps 0      ended" in shown.stdout
    judged = command(run.folder, "doctor", "out")
    assert judged.returncode == 0, judged.stderr
    assert judged.stdout.startswith(f"Of the run in {run.output}, the time of worker ")
    late = command(run.folder, "trace")
    assert (late.returncode, late.stderr) == (
        2,
        f"{run.output}: expected a job that trains, found one that does not any more\n",
    )
