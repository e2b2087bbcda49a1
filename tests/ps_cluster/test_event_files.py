"""A training without end leaves two files of events at most, which are read as one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ps_cluster.cli.main import main
from ps_cluster.errors import RunError
from ps_cluster.export.model_card import _metrics
from ps_cluster.launch.events_tail import EventsTail
from ps_cluster.launch.output import LEFTOVERS
from ps_cluster.report import events
from ps_cluster.report.event_log import EventLog, before
from ps_cluster.report.status import Status
from tests.ps_cluster.run_events import run_events

LIMIT = 20_000
START = next(event for event in run_events() if event["event"] == "start")


def step(number: int) -> dict[str, Any]:
    return events.step(step=number, epoch=1, loss=0.5, samples_per_second=10.0, rows=50 * number)


def steps(told: list[dict[str, Any]]) -> list[int]:
    return [event["step"] for event in told if event["event"] == "step"]


def kinds(told: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in told if event["event"] != "step"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_files_stay_within_the_limit_and_know_what_has_been_started(path: Path) -> None:
    with EventLog(str(path), LIMIT) as log:
        log.append(START)
        for number in range(1, 2001):
            log.append(step(number))
    assert set(os.listdir(path.parent)) == {"events.jsonl", "events.jsonl.1"} <= LEFTOVERS
    assert all(file.stat().st_size < 2 * LIMIT for file in path.parent.iterdir())
    told = EventsTail(path).read()
    assert kinds(told) == ["start"]
    first = steps(told)[0]
    assert first > 1 and steps(told) == list(range(first, 2001))
    status = Status()
    for event in told:
        status.update(event)
    assert status.last["start"]["job"] == START["job"] and status.phase == "train"
    with path.open() as lines:
        assert json.loads(next(lines))["event"] == "start"


WRITER = """
import sys
from ps_cluster.report import events
from ps_cluster.report.event_log import EventLog
with EventLog(sys.argv[1], 20_000) as log:
    log.append(events.phase(name="train"))
    log.append(events.warm_start(path="there", step=3, tables={}))
    for number in range(1, 10_001):
        log.append(events.step(step=number, epoch=1, loss=0.5, samples_per_second=10.0, rows=number))
        if number % 40 == 0:  # a file has some 150
            sys.stdin.readline()
"""


def test_whoever_follows_sees_each_event_once_while_files_are_set_aside(path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, text=True)
    assert writer.stdin is not None
    tail, told = EventsTail(path), []
    deadline = time.monotonic() + 120
    try:
        for number in range(40, 10_001, 40):
            while number not in steps(told[-1:]):
                told += tail.read()  # while it writes
                assert writer.poll() is None and time.monotonic() < deadline
            writer.stdin.write("\n")
            writer.stdin.flush()
        assert writer.wait(60) == 0
    finally:
        writer.kill()
        writer.wait()
        writer.stdin.close()
    told += tail.read()
    assert steps(told) == list(range(1, 10_001)) and kinds(told) == ["phase", "warm_start"]
    assert Path(before(str(path))).exists()


def test_an_event_of_another_process_is_in_the_files_too(path: Path) -> None:
    tail = EventsTail(path)
    with EventLog(str(path), 5_000) as log:
        for number in range(1, 31):
            log.append(step(number))
        with EventLog(str(path)) as launcher:
            launcher.append(events.saved(path="there", what="checkpoint"))
        told = tail.read()
        for number in range(31, 61):
            log.append(step(number))
    told += tail.read()
    assert steps(told) == list(range(1, 61)) and kinds(told) == ["saved"]
    assert Path(before(str(path))).exists()


def test_new_events_alone_are_read_across_files(path: Path) -> None:
    with EventLog(str(path), 5_000) as log:
        log.append(START)
        log.append(step(1))
        tail = EventsTail(path, new_only=True)
        for number in range(2, 42):
            log.append(step(number))
    assert Path(before(str(path))).exists()
    told = tail.read()
    assert (kinds(told), steps(told)) == ([], list(range(2, 42)))


def test_a_writer_that_ended_while_it_set_the_file_aside_loses_nothing(path: Path) -> None:
    with EventLog(str(path), LIMIT) as log:
        log.append(START)
        log.append(step(1))
    tail = EventsTail(path)
    assert steps(tail.read()) == [1]
    path.rename(before(str(path)))  # and no further
    assert (tail.read(), steps(EventsTail(path).read())) == ([], [1])
    with EventLog(str(path), LIMIT) as log:
        log.append(step(2))
    assert steps(tail.read()) == [2]
    assert (steps(EventsTail(path).read()), os.listdir(path.parent)) == ([1, 2], ["events.jsonl"])


@pytest.mark.parametrize("limit", [LIMIT, None])
def test_what_comes_after_a_line_that_a_full_disk_has_cut_is_not_lost(path: Path, limit: int | None) -> None:
    with EventLog(str(path), limit) as log:
        log.append(step(1))
    with path.open("ab") as file:
        file.write(b'{"event": "st')
    follower = EventsTail(path)
    assert steps(follower.read()) == [1]
    for number in (2, 3):
        with EventLog(str(path), limit) as log:
            log.append(step(number))
    assert (steps(follower.read()), steps(EventsTail(path).read())) == ([2, 3], [1, 2, 3])
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize("line", [b"[" * 100_000, b"3", b"null", b"\xff\x00", b'"' + b"x" * 100, b"1" * 5_000])
def test_lines_that_are_no_events_are_left_out_by_all_who_read_them(path: Path, line: bytes) -> None:
    told = [event for event in run_events() if event["event"] in ("start", "step", "evaluation")]
    with EventLog(str(path)) as log:
        for event in told:
            log.append(event)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n" + line + b"\n"))
    assert steps(EventsTail(path).read()) == steps(told)
    job = SimpleNamespace(output=str(path.parent))
    figures = _metrics(job, steps(told)[-1])  # type: ignore[arg-type]
    assert figures is not None and figures["rows"] == told[-1]["rows"]
    with EventLog(str(path), 100) as log:
        log.append(step(1_000))
    assert steps(EventsTail(path).read()) == [*steps(told), 1_000]
    with path.open() as lines:
        assert [json.loads(one)["event"] for one in lines] == ["start", "evaluation"]


@pytest.mark.parametrize("file", ["events.jsonl", "events.jsonl.1"])
@pytest.mark.parametrize("command", ["status", "doctor"])
def test_files_of_events_that_cannot_be_read_are_told_in_one_line(
    path: Path, file: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (path.parent / "run.json").write_text("{}")
    (path.parent / file).mkdir()
    assert main([command, str(path.parent)]) == 2
    expected = f"{path.parent / file}: expected a readable file of events, found: Is a directory\n"
    assert capsys.readouterr().err == expected
    with pytest.raises(RunError, match=re.escape(f"{path}: cannot write: Is a directory")):
        EventLog(str(path), LIMIT)


def test_who_looks_too_seldom_misses_steps_but_nothing_comes_twice(path: Path) -> None:
    tail, told = EventsTail(path), []
    with EventLog(str(path), 5_000) as log:
        for number in range(1, 501):
            log.append(step(number))
            if number in (10, 400):
                told += tail.read()
    told += tail.read()
    found = steps(told)
    assert found == sorted(set(found)) and found[:10] == list(range(1, 11)) and found[-1] == 500
