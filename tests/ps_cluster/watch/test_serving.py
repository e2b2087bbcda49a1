"""Figures over HTTP: what a process serves, where, and what somebody who asks is told when it is not there."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ps_cluster.embedding.table_stats import TableCounts, TableStats
from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership
from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.report import events
from ps_cluster.train.step_time import PARTS, Marks
from ps_cluster.watch.endpoint import Endpoint, endpoints_at, endpoints_of, listening_place
from ps_cluster.watch.health import PsHealth, Wait
from ps_cluster.watch.scrape import scrape
from ps_cluster.watch.server import FiguresServer
from ps_cluster.watch.serving import serve_figures
from ps_cluster.watch.worker_figures import WorkerFigures
from tests.ps_cluster.small_job import job_file_of, job_of

PLACE = Membership("worker", 1, ("localhost:1",), ("localhost:2", "localhost:3"), "localhost:4")


def figures_of_a_worker(whole_job: bool) -> WorkerFigures:
    figures = WorkerFigures(1, whole_job)
    for step in (1, 2):
        figures.clock.ran(5.0, Marks(6.0, 8.0, 8.5, 8.5), 9.0)
        figures.clock.step_done(step, rows=32)
    figures.read(3, {"shop": 4})
    one = {"step": 2, "epoch": 1, "loss": 0.5, "samples_per_second": 70.0, "rows": 128}
    figures.handle(events.step(**one, auc=None, calibration=1.5, gradient_norm=float("inf"), learning_rate_factor=0.1))
    figures.handle(events.checkpoint(step=2, path="x", size_bytes=99, delta=False, pause_seconds=0.25, seconds=1.0))
    counts = TableCounts(5, 50, 500, looked_up=10, hits=4, evicted_age=2)
    figures.tables([TableStats("items", True, counts, (counts,))])
    return figures


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FiguresServer]:
    figures = figures_of_a_worker(whole_job=True)
    server = serve_figures(job_file_of(job_of(), tmp_path), PLACE, figures, figures.health)
    assert server is not None
    yield server
    server.close()


def test_a_process_is_found_by_its_note_and_tells_its_figures(server: FiguresServer, tmp_path: Path):
    (endpoint,) = endpoints_of(str(tmp_path / "output"))
    assert (endpoint.name, endpoint.address) == ("worker 1", f"127.0.0.1:{server.port}")
    (answer,) = scrape([endpoint])
    assert answer.problem is None
    assert answer.value("ps_cluster_process_info", job_name="small", role="worker", index="1") == 1
    assert answer.value("ps_cluster_step", worker="1") == 2
    assert answer.value("ps_cluster_rows_total") == 64
    assert answer.value("ps_cluster_steps_total") == 1  # without the first
    parts = {part: answer.value("ps_cluster_step_seconds_total", part=part) for part in PARTS}
    assert (parts["pull"], parts["compute"], parts["all_reduce"], parts["push"]) == (1.0, 2.0, 0.5, 0.5)
    assert answer.value("ps_cluster_loss") == 0.5
    assert answer.value("ps_cluster_window_auc") is None  # one class only
    assert answer.value("ps_cluster_gradient_norm") == float("inf")
    assert answer.value("ps_cluster_nulls_filled_total", column="shop") == 4
    assert answer.value("ps_cluster_rows_lost_total") == 3
    assert answer.value("ps_cluster_table_rows", table="items", ps="0") == 5
    assert answer.value("ps_cluster_table_evicted_total", reason="age") == 2
    assert answer.value("ps_cluster_table_hit_ratio", table="items") == 0.4
    assert answer.value("ps_cluster_checkpoint_pause_seconds") == 0.25
    assert (answer.value("ps_cluster_checkpoint_age_seconds") or 0) >= 0
    assert (answer.value("process_resident_memory_bytes") or 0) > 1e6


def test_names_follow_the_conventions_of_prometheus(server: FiguresServer):
    text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60).read().decode()
    for family in text_string_to_metric_families(text):
        assert re.fullmatch(r"(ps_cluster|process)_[a-z_]+", family.name), family.name
        assert family.documentation.endswith("."), family.name
        ends = {"counter": r".*_total|.*_created", "gauge": r"(?!.*_total$).*"}[family.type]
        assert all(re.fullmatch(ends, sample.name) for sample in family.samples), family.name
        assert not re.search(r"millisecond|kilobyte|percent|_ms$", family.name), family.name


def test_other_workers_leave_what_is_of_the_whole_job_to_the_first():
    names = {family.name for family in figures_of_a_worker(whole_job=False).collect()}
    assert "ps_cluster_step_seconds" in names
    assert not names & {"ps_cluster_loss", "ps_cluster_table_rows", "ps_cluster_checkpoint_step", "ps_cluster_job_rows"}


def test_health_says_what_goes_on(server: FiguresServer):
    status, health = health_of(server)
    assert status == 200
    assert health.pop("last_step_time") > 0
    assert health == {"healthy": True, "job": "small", "role": "worker", "index": 1, "phase": "train", "steps": 2}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/else", timeout=60)


def test_a_worker_is_healthy_while_it_waits_and_not_beyond_the_limit(tmp_path: Path):
    figures = figures_of_a_worker(whole_job=False)
    waits = [Wait("step 3", 299.0, 300.0), Wait("step 3", 301.0, 300.0), None]
    server = serve_figures(job_file_of(job_of(), tmp_path), PLACE, health=lambda: figures.health(waits.pop(0)))
    assert server is not None
    status, health = health_of(server)
    assert (status, health["doing"], health["for_seconds"], health["limit_seconds"]) == (200, "step 3", 299.0, 300.0)
    status, health = health_of(server)
    assert (status, health["healthy"]) == (503, False)
    assert health["problem"] == "step 3 has taken more than 300 s"
    assert health_of(server)[0] == 200
    server.close()


def test_a_ps_that_waits_is_healthy_and_one_that_does_not_answer_is_not(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as tensorflow:
        port = tensorflow.getsockname()[1]
        asked_by: list[socket.socket] = []

        def answer() -> None:  # the first one who asks; then it only takes connections
            connection, _ = tensorflow.accept()
            asked_by.append(connection)
            connection.sendall(b"\0")

        threading.Thread(target=answer, daemon=True).start()
        server = serve_figures(job_file_of(job_of(), tmp_path), PLACE, health=PsHealth(port, ask_again_seconds=0))
        assert server is not None
        assert [health_of(server)[0] for _ in range(3)] == [200, 200, 503]  # one question may be lost
        assert health_of(server)[1]["problem"] == f"TensorFlow's server at 127.0.0.1:{port} does not answer"
        server.close()


def health_of(server: FiguresServer) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_job_that_wants_no_figures_serves_none(tmp_path: Path):
    assert serve_figures(job_file_of(job_of({"metrics": {"serve": False}}), tmp_path), PLACE) is None
    assert endpoints_of(str(tmp_path / "output")) == []


def test_a_port_that_is_taken_is_named(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        first = taken.getsockname()[1] - 2  # of PS 0 and workers 0 and 1 the last
        with pytest.raises(
            RunError, match=rf"worker 1: metrics.port: cannot listen on port {first + 2}: Address already"
        ):
            serve_figures(job_file_of(job_of({"metrics": {"port": first}}), tmp_path), PLACE)


def test_processes_of_one_host_take_ports_in_a_row_and_only_loopback_ones_hide():
    hosts = Membership("worker", 1, ("a:1", "b:1"), ("b:2", "b:3", "c:1"), "b:4")
    assert listening_place(hosts, 9000) == ("", 9002)
    assert listening_place(Membership("ps", 1, hosts.ps, hosts.workers, "b:4"), 9000) == ("", 9000)
    assert listening_place(PLACE, None) == ("127.0.0.1", 0)


def test_whoever_does_not_answer_is_named_with_the_reason(server: FiguresServer):
    with socket.socket() as silent, reserved_addresses(1) as (nobody,):
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        mute = f"127.0.0.1:{silent.getsockname()[1]}"
        asked = [
            Endpoint("ps", 0, nobody, 1, "here"),
            Endpoint("ps", 1, mute, 1, "here"),
            Endpoint("worker", 0, f"127.0.0.1:{server.port}", 1, "here"),
            *endpoints_at([f"127.0.0.1:{server.port}"]),
        ]
        answers = scrape(asked, limit_seconds=1.0)
    assert [answer.problem for answer in answers] == [
        "Connection refused",
        "no answer in time",
        "worker 1 serves there now",
        None,
    ]
    assert answers[3].endpoint.name == "worker 1"
