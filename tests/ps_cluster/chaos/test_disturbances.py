"""What else happens to a training: a process stands still, a disk is full, a kill comes at a bad moment."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ps_cluster.checkpoint.finding import checkpoint_at
from tests.ps_cluster import small_cluster
from tests.ps_cluster.chaos.runs import SMALL, ended_well, last, restarted
from tests.ps_cluster.small_cluster import Run

pytestmark = pytest.mark.slow


def trains(run: Run, steps: int = 5) -> bool:
    return last(run).step > steps


@pytest.mark.parametrize("recovery", ["job", "shard"])
def test_a_ps_that_stands_still_for_ten_seconds_is_waited_for(start: Callable[..., Run], recovery: str) -> None:
    run = start(**SMALL, training__epochs=20, failures__recovery=recovery)
    run.until(lambda: trains(run))
    pid = run.pid_of("ps", 1)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(10)
    os.kill(pid, signal.SIGCONT)
    assert ended_well(run, 20).rows_retrained == 0
    assert restarted(run) == []


def test_a_ps_that_stands_still_for_too_long_is_named_and_the_job_goes_on(start: Callable[..., Run]) -> None:
    run = start(**SMALL, training__epochs=20, failures__wait_seconds=30)
    run.until(lambda: trains(run, 12))
    os.kill(run.pid_of("ps", 1), signal.SIGSTOP)
    ended_well(run, 20)
    (event,) = run.events("restart")
    assert event["status"] == 75
    assert "has waited 30 s for PS 1 (127.0.0.1:" in event["told"]


def test_training_goes_on_while_the_disk_of_the_checkpoints_is_full(start: Callable[..., Run], tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        run = start(**SMALL, training__epochs=60, checkpoint__folder=str(disk / "checkpoints"))
        run.until(lambda: len(run.events("checkpoint")) >= 2)
        filler = disk / "filler"
        with filler.open("wb") as file:  # to the last byte
            while True:
                try:
                    os.write(file.fileno(), bytes(4096))
                except OSError:
                    break
        run.until(lambda: run.events("checkpoint_failed"))
        problem = run.events("checkpoint_failed")[0]["problem"]
        print(problem)
        assert "No space left on device" in problem or "no space" in problem.lower()
        whole = checkpoint_at(str(disk / "checkpoints" / f"step-{run.events('checkpoint')[-1]['step']:010d}"))
        assert whole.step == run.events("checkpoint")[-1]["step"]
        filler.unlink()
        ended_well(run, 60)
        assert restarted(run) == []
        assert run.events("checkpoint")[-1]["step"] == last(run).step
        assert "NOT written" in run.out
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_second_trainer_is_refused_also_one_that_is_started_by_hand(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(**SMALL, training__epochs=1_000_000)
    run.until(lambda: trains(run))
    job = str(tmp_path / "job.yaml")
    second = small_cluster.command(tmp_path, "train", job, "--resume")
    assert second.returncode == 2
    assert f"found process {run.launcher.pid} using {run.output}" in second.stderr
    ports = "127.0.0.1:1,127.0.0.1:2"
    place = ("--ps", ports, "--workers", "127.0.0.1:3,127.0.0.1:4", "--rendezvous", "127.0.0.1:5", "--index", "0")
    by_hand = small_cluster.command(tmp_path, "worker", job, *place, "--resume")
    print(by_hand.stderr)
    assert by_hand.returncode == 2
    assert "expected a folder that no other training writes its checkpoints to, found" in by_hand.stderr


@pytest.mark.parametrize(("role", "index"), [("worker", 0), ("ps", 1)])
def test_a_kill_during_a_checkpoint_leaves_the_one_before(start: Callable[..., Run], role: str, index: int) -> None:
    run = start(**{**SMALL, "checkpoint__every_steps": 3}, training__epochs=30)
    run.until(lambda: len(run.events("checkpoint")) >= 3)
    folder = run.output / "checkpoint"
    victim = run.pid_of(role, index)

    def one_is_being_written() -> bool:
        return any(not (step / "manifest.json").exists() for step in folder.glob("step-*"))

    run.until(lambda: _often(one_is_being_written))
    os.kill(victim, signal.SIGKILL)
    unfinished = [step.name for step in folder.glob("step-*") if not (step / "manifest.json").exists()]
    print("unfinished:", unfinished)
    ended_well(run, 30)
    assert run.events("resume")[0]["step"] > 0


def test_a_kill_during_the_export_leaves_no_half_model(start: Callable[..., Run]) -> None:
    run = start(**SMALL, training__epochs=3)
    run.until(lambda: [e for e in run.events("phase") if e["name"] == "export"])
    run.until(lambda: any(" export " in line for line in run.processes().values()))
    time.sleep(4)  # it has begun
    os.kill(run.pid_of("worker", 0), signal.SIGKILL)
    ended_well(run, 3)
    exports = sorted(path.name for path in (run.output / "export").iterdir())
    print(exports)
    assert exports and all(name.isdigit() for name in exports)
    assert (run.output / "export" / exports[-1] / "saved_model.pb").exists()


@pytest.mark.parametrize(("role", "index"), [("worker", 0), ("ps", 1)])
def test_a_kill_during_a_restore_is_followed_by_another_one(start: Callable[..., Run], role: str, index: int) -> None:
    run = start(**SMALL, training__epochs=30)
    run.until(lambda: run.events("checkpoint"))
    os.kill(run.pid_of("worker", 1), signal.SIGKILL)
    run.until(lambda: run.events("restart"))
    run.until(lambda: _pid(run, role, index))
    victim = _pid(run, role, index)
    files = str(run.output / "checkpoint")
    # PS read the tables, worker 0 the rest.
    run.until(lambda: _often(lambda: _has_open(victim, files) or len(run.events("resume")) > 0))
    os.kill(victim, signal.SIGKILL)
    ended_well(run, 30)
    assert len(run.events("restart")) == 2


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_is_used(start: Callable[..., Run]) -> None:
    run = start(**SMALL, training__epochs=30)
    run.until(lambda: len(run.events("checkpoint")) >= 2)
    saved = [event["step"] for event in run.events("checkpoint")]
    for pid in [run.pid_of("worker", i) for i in (0, 1)] + [run.pid_of("ps", i) for i in (0, 1)]:
        os.kill(pid, signal.SIGKILL)
    newest = sorted((run.output / "checkpoint").glob("step-*/manifest.json"))[-1].parent
    (damaged,) = newest.glob("tables/items/ps-000*.table")
    damaged.write_bytes(damaged.read_bytes()[:-20])
    ended_well(run, 30)
    told = (run.output / "logs" / "worker-0.restart-1.log").read_text()
    assert f"{damaged}: " in told
    assert any(f"{damaged}: " in line for event in run.events("damaged") for line in event["lines"])
    assert run.events("resume")[0]["step"] in saved
    assert run.events("resume")[0]["step"] < int(newest.name.removeprefix("step-"))


def _often(condition: Callable[[], bool]) -> bool:
    """Looks many times a second, for what lasts a moment."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        if condition():
            return True
    return False


def _has_open(pid: int, below: str) -> bool:
    try:
        return any(os.readlink(entry.path).startswith(below) for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _pid(run: Run, role: str, index: int) -> int:
    try:
        return run.pid_of(role, index)
    except AssertionError:
        return 0
