"""A real Prometheus scrapes a running job, and the questions that a board asks have answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.watch.endpoint import endpoints_of
from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason="no program `prometheus`; PROMETHEUS names one"),
]

QUERIES = {
    "up": 3,
    "ps_cluster_process_info": 3,
    "sum(rate(ps_cluster_rows_total[30s]))": 1,
    "sum by (part) (rate(ps_cluster_step_seconds_total[30s]))": 7,
    'rate(ps_cluster_step_seconds_total{part="input"}[30s]) / on(worker) sum by (worker) '
    "(rate(ps_cluster_step_seconds_total[30s]))": 2,
    "ps_cluster_loss": 1,
    "ps_cluster_window_auc": 1,
    "ps_cluster_window_calibration_ratio": 1,
    "ps_cluster_gradient_norm": 1,
    "ps_cluster_learning_rate_factor": 1,
    "ps_cluster_mfu_ratio": 1,
    "sum by (table) (ps_cluster_table_rows)": 4,
    "sum by (ps) (ps_cluster_table_bytes)": 1,
    "sum(ps_cluster_table_hits_total) / sum(ps_cluster_table_looked_up_total)": 1,
    "time() - ps_cluster_checkpoint_timestamp_seconds": 1,
    "ps_cluster_checkpoint_pause_seconds": 1,
    "ps_cluster_checkpoint_size_bytes": 1,
    "process_resident_memory_bytes": 3,
    "rate(process_cpu_seconds_total[30s])": 3,
    "rate(ps_cluster_stalled_seconds_total[30s])": 3,
    "time() - ps_cluster_last_step_timestamp_seconds": 2,
}
"""Each with the number of series that it returns."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    small_cluster.write_samples(tmp_path)
    changes = {"training__epochs": 1_000_000, "training__log_every_steps": 5, "cluster__workers": 2, "cluster__ps": 1}
    run = small_cluster.start(tmp_path, job(**changes, checkpoint__every_steps=200))
    try:
        run.until(lambda: run.events("processes") and run.events("checkpoint"))
        yield run
    finally:
        run.kill_rest()


def test_every_query_of_a_board_returns_data(run: Run, tmp_path: Path):
    targets = [one.address for one in endpoints_of(str(run.output))]
    config = {"scrape_configs": [{"job_name": "ps-cluster", "static_configs": [{"targets": targets}]}]}
    config["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s"}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    with reserved_addresses(1) as (address,):
        place = [f"--web.listen-address={address}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        with (tmp_path / "prometheus.log").open("w") as log:
            server = subprocess.Popen(
                [str(PROMETHEUS), f"--config.file={tmp_path / 'prometheus.yml'}", *place], stdout=log, stderr=log
            )
        try:
            missing = QUERIES
            deadline = time.monotonic() + small_cluster.PATIENCE_SECONDS
            while missing:
                assert server.poll() is None, (tmp_path / "prometheus.log").read_text()
                found = {query: answers(address, query) for query in missing}
                missing = {query: QUERIES[query] for query in missing if len(found[query]) != QUERIES[query]}
                assert time.monotonic() < deadline, {query: found[query] for query in missing}
                time.sleep(1)
            for query in QUERIES:
                print(query, [value["value"][1] for value in answers(address, query)])
        finally:
            server.kill()
            server.wait()


def answers(address: str, query: str) -> list[dict]:
    try:
        with urllib.request.urlopen(
            f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        ) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:  # not listening yet
        return []
