"""Samples are trained on as they arrive: real files appear in a folder while a real job runs."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from ps_cluster.watch.endpoint import endpoints_of
from ps_cluster.watch.scrape import scrape
from tests.ps_cluster import followed, small_cluster


def files_done(run: small_cluster.Run) -> list[dict]:
    return run.events("file")


def told_files(run: small_cluster.Run, least: int) -> bool:
    return len(files_done(run)) >= least


def test_files_that_appear_are_trained_on_once_also_after_the_whole_job_was_killed(tmp_path: Path) -> None:
    live, files = tmp_path / "live", {number: 150 + 20 * number for number in range(6)}
    for number in (0, 1):
        followed.add(live, number, files[number])
    (live / "part-00001b.partial.orc").write_bytes(b"not whole")
    description = followed.job(export={"every_checkpoints": 1, "delta": True})
    run = small_cluster.start(tmp_path, description)
    try:
        run.until(lambda: len(files_done(run)) == 2)
        run.until(lambda: any(event["name"] == "wait" for event in run.events("phase")))
        shown = small_cluster.command(tmp_path, "status", "job.yaml", "--once")
        assert "waiting for files" in shown.stdout and "newest event" in shown.stdout, shown.stdout + shown.stderr
        told = next(one for one in scrape(endpoints_of(str(run.output))) if one.endpoint.name == "worker 0")
        assert told.value("ps_cluster_files_total") == 2
        fresh = told.value("ps_cluster_freshness_seconds")
        assert fresh is not None and 0 <= fresh < small_cluster.PATIENCE_SECONDS
        for number in (2, 3):
            followed.add(live, number, files[number])
        run.until(lambda: len(files_done(run)) == 4 and run.events("checkpoint") and run.events("exported"))
        others = [run.pid_of(role, index) for role, index in (("worker", 1), ("ps", 0), ("worker", 0))]
        for pid in (run.launcher.pid, *others):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait()
    finally:
        run.kill_rest()
    first = files_done(run)
    assert [Path(event["path"]).name for event in first] == [f"part-{number:05}.orc" for number in range(4)]
    assert [event["scored"] for event in first] == [event["rows"] for event in first] == [files[n] for n in range(4)]
    assert all(event["auc"] is not None and event["log_loss"] > 0 for event in first)
    assert all(0 <= event["time"] - event["newest_event_time"] < small_cluster.PATIENCE_SECONDS for event in first)
    again = small_cluster.start(tmp_path, description, "--resume")
    try:
        again.until(lambda: again.events("resume"))
        for number in (4, 5):
            followed.add(live, number, files[number])
        again.until(lambda: any(event["path"].endswith("part-00005.orc") for event in files_done(again)))
        again.launcher.send_signal(signal.SIGTERM)
        again.wait()
    finally:
        again.kill_rest()
    assert again.status == 75, again.out + again.err + again.logs()
    assert followed.trained(again.output) == followed.each_once(files)
    assert again.events("step")[-1]["rows"] == sum(files.values())


def test_damaged_files_are_left_out_and_told_and_training_ends_when_none_appears(tmp_path: Path) -> None:
    live, files = tmp_path / "live", {0: 90, 2: 130}
    for number, rows in files.items():
        followed.add(live, number, rows)
    (live / "part-00001.orc").write_bytes(b"nothing of the kind")
    description = followed.job(cluster={"ps": 0, "workers": 1}, checkpoint={})
    description["data"] |= {"on_bad": "skip", "reader": "tfio", "idle_seconds": 6}
    run = small_cluster.train(tmp_path, description)
    assert run.status == 0, run.out + run.err + run.logs()
    told = {Path(event["path"]).name: event for event in files_done(run)}
    assert {name: event["rows"] for name, event in told.items()} == {
        "part-00000.orc": 90,
        "part-00001.orc": 0,
        "part-00002.orc": 130,
    }
    assert "expected an ORC file" in told["part-00001.orc"]["problem"]
    assert "part-00001.orc: left out:" in run.out
    assert followed.trained(run.output) == followed.each_once(files)


@pytest.mark.slow
def test_a_lost_ps_is_refilled_alone_while_files_appear(tmp_path: Path) -> None:
    """Of its rows those that it learned since the checkpoint are gone, those of the step that broke off count twice at
    most; the rows of the other PS are all there."""
    live, files = tmp_path / "live", dict.fromkeys(range(6), 300)
    for number in (0, 1):
        followed.add(live, number, files[number])
    description = followed.job(cluster={"ps": 2, "workers": 2}, failures={"recovery": "shard"})
    description["data"]["idle_seconds"] = 20
    run = small_cluster.start(tmp_path, description)
    try:
        run.until(lambda: told_files(run, 1) and run.events("checkpoint"))
        os.kill(run.pid_of("ps", 1), signal.SIGKILL)
        for number in (2, 3):
            followed.add(live, number, files[number])
        run.until(lambda: run.events("recovered"))
        for number in (4, 5):
            followed.add(live, number, files[number])
        run.wait()
    finally:
        run.kill_rest()
    assert run.status == 0, run.out + run.err + run.logs()
    assert [event["restarted"] for event in run.events("restart")] == [["ps 1"]]
    (recovered,) = run.events("recovered")
    assert recovered["ps"] == [1] and 0 < recovered["checkpoint_step"] <= recovered["step"]
    assert run.events("step")[-1]["rows"] == sum(files.values())
    found, expected = followed.trained(run.output), followed.each_once(files)
    assert set(found) <= set(expected)
    missing, twice = len(set(expected) - set(found)), sum(count > 1 for count in found.values())
    steps = recovered["step"] - recovered["checkpoint_step"]
    print(f"{recovered}: {missing} rows not in the tables, {twice} counted twice")
    assert missing <= 64 * (steps + 1) and twice <= 64


@pytest.mark.slow
def test_fifty_files_with_a_kill_in_the_middle(tmp_path: Path) -> None:
    live, rows = tmp_path / "live", 400
    files = dict.fromkeys(range(50), rows)
    more = {"checkpoint": {"every_steps": 40, "deltas": 5}, "export": {"every_checkpoints": 2, "delta": True}}
    description = followed.job(**more)
    description["data"]["idle_seconds"] = 15
    run = small_cluster.start(tmp_path, description)
    try:
        for number in range(25):
            followed.add(live, number, rows)
            run.until(functools.partial(told_files, run, number - 1))
        run.until(lambda: len(run.events("checkpoint")) >= 2 and run.events("exported"))
        for pid in (run.launcher.pid, *run.processes()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run.wait()
    finally:
        run.kill_rest()
    again = small_cluster.start(tmp_path, description, "--resume")
    try:
        again.until(lambda: again.events("resume"))
        before = len(again.events("file"))
        for number in range(25, 50):
            followed.add(live, number, rows)
            again.until(functools.partial(told_files, again, before + number - 26))
        again.wait()
    finally:
        again.kill_rest()
    assert again.status == 0, again.out + again.err + again.logs()
    assert followed.trained(again.output) == followed.each_once(files)
    (resumed,) = again.events("resume")
    told = again.events("file")
    by_name = {Path(event["path"]).name: event for event in told}
    assert len(by_name) == 50 and told[-1]["files"] == 50
    late = [event["auc"] for name, event in sorted(by_name.items())[40:]]
    assert np.mean(late) > 0.75
    assert not again.events("export_failed")
    deltas = [event for event in again.events("exported") if event.get("delta")]
    assert deltas
    fresh = sorted(event["time"] - event["newest_event_time"] for event in told)
    print(f"freshness: median {fresh[len(fresh) // 2]:.1f} s, most {fresh[-1]:.1f} s; resumed at {resumed}")
    print("AUC of next files:", [round(by_name[name]["auc"], 3) for name in sorted(by_name)])
    print("exports:", [(Path(event["path"]).name, event["size_bytes"]) for event in again.events("exported")])
