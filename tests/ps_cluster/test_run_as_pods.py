"""PS and workers as pods run them: with a word at the end, drained all at once, started again."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ps_cluster.errors import RESTART
from ps_cluster.launch.ports import reserved_addresses
from tests.ps_cluster.ps_processes import start
from tests.ps_cluster.small_cluster import job, write_samples

LIMIT_SECONDS = 400


@contextmanager
def started(folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two PS and two workers with the flags of rendered pods; PS first."""
    with reserved_addresses(5) as (*places, rendezvous):
        ps, workers = ",".join(places[:2]), ",".join(places[2:])
        place = ["--ps", ps, "--workers", workers, "--rendezvous", rendezvous]
        path = str(folder / "job.yaml")
        processes = [
            start(
                "-m", "ps_cluster", "ps", path, *place, "--index", str(index), "--until-done", f"{folder}/done-{index}"
            )
            for index in range(2)
        ]
        # On one machine the PS would share a file: PS 1 ends because the workers are gone for good.
        done = ["--resume", "--done-file", f"{folder}/done-0", "--events", f"{folder}/events.jsonl"]
        processes += [
            start("-m", "ps_cluster", "worker", path, *place, "--index", str(index), *done) for index in range(2)
        ]
        try:
            yield processes
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def ends(processes: list[subprocess.Popen[str]]) -> list[int]:
    for process in processes:
        process.communicate(timeout=LIMIT_SECONDS)
    return [process.returncode for process in processes]


def steps(folder: Path) -> list[int]:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event["step"] for event in map(json.loads, lines) if event["event"] == "step"]


@pytest.mark.slow
def test_drained_at_once_all_ask_for_a_restart_and_then_go_on_to_the_end(tmp_path: Path) -> None:
    write_samples(tmp_path)
    (tmp_path / "job.yaml").write_text(json.dumps(job(cluster__workers=2, training__epochs=20)))
    with started(tmp_path) as processes:
        deadline = time.monotonic() + LIMIT_SECONDS
        while len(steps(tmp_path)) < 5 and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in processes:  # as when everything is deleted
            process.send_signal(signal.SIGTERM)
        assert ends(processes) == [RESTART] * 4
    drained = steps(tmp_path)[-1]
    assert (tmp_path / "out" / "checkpoint" / f"step-{drained:010d}" / "manifest.json").exists()
    with started(tmp_path) as processes:
        first, _, *workers = processes
        assert ends([first, *workers]) == [0, 0, 0]
        assert processes[1].poll() is None  # has not been told, and waits for workers that may come again
    assert (tmp_path / "out" / "export" / "1").is_dir()
    told = steps(tmp_path)
    assert told[told.index(drained) + 1] == drained + 1
