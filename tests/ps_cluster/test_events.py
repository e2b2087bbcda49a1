"""Events of a run and the file that carries them."""

from __future__ import annotations

import json
import math
import multiprocessing

import numpy as np
import pytest

from ps_cluster.errors import RunError
from ps_cluster.report import EventLog, events


def read_events(path: str) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_what_was_appended_is_read(tmp_path):
    path = str(tmp_path / "events.jsonl")
    with EventLog(path) as log:
        log.append(events.step(step=np.int64(5), epoch=1, loss=np.float32(0.5), samples_per_second=10.0, rows=50))
        log.append(events.next(commands=[("ls 'a b'", "Umlaute: äöü")]))
    step, following = read_events(path)
    assert isinstance(step.pop("time"), float)
    assert step == {
        "event": "step",
        "step": 5,
        "epoch": 1,
        "loss": 0.5,
        "samples_per_second": 10.0,
        "rows": 50,
        "auc": None,
    }
    assert following["commands"] == [["ls 'a b'", "Umlaute: äöü"]]


def test_floats_without_a_json_form_are_strings_that_python_reads_back(tmp_path):
    path = str(tmp_path / "events.jsonl")
    with EventLog(path) as log:
        log.append(events.evaluation(rows=1, auc=None, log_loss=math.inf, calibration=np.float32("nan")))
    text = (tmp_path / "events.jsonl").read_text()
    event = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert float(event["log_loss"]) == math.inf
    assert math.isnan(float(event["calibration"]))
    assert event["auc"] is None


def test_fields_that_were_not_given_are_left_out():
    assert set(events.done(seconds=1.0)) == {"event", "time", "seconds"}


def append_many(path: str, name: str) -> None:
    with EventLog(path) as log:
        for number in range(300):
            log.append(events.phase(name=name * 50, done=number))


def test_lines_of_two_processes_do_not_mix(tmp_path):
    path = str(tmp_path / "events.jsonl")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_many, args=(path, name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = read_events(path)
    for name in "ab":
        assert [event["done"] for event in found if event["name"] == name * 50] == list(range(300))


def test_a_full_disk_is_reported():
    with (
        EventLog("/dev/full") as log,
        pytest.raises(RunError, match="/dev/full: cannot write: No space left"),
    ):
        log.append(events.phase(name="save"))
