"""What the doctor says of figures: the order of layers, the slowest worker, a PS against the network."""

from __future__ import annotations

import pytest

from ps_cluster.train.step_time import StepTime
from ps_cluster.watch.diagnosis import Figures, diagnose, slowest
from ps_cluster.watch.used import Used

CALM = Used("ps", 0, seconds=10, cpu_seconds=2, stalled_seconds=0.1, cpu_limit_cores=2, memory_bytes=1)


def verdict(*step_time: StepTime, **more) -> str:
    return diagnose(Figures(step_time, steps=10, **more)).verdict


def test_a_device_that_computes_most_of_the_time_is_well():
    found = diagnose(Figures([StepTime(input=1, pull=0.5, compute=8, push=0.5)], steps=10))
    assert found.findings == []
    assert found.verdict == "none"
    assert found.shares["compute"] == 0.8


def test_data_comes_before_communication():
    found = diagnose(Figures([StepTime(input=3, pull=3, compute=3, push=1)], steps=10))
    assert [finding.layer for finding in found.findings] == ["input", "link"]


def test_input_is_no_matter_while_the_device_is_used():
    assert verdict(StepTime(input=2.5, compute=7.5)) == "none"
    assert verdict(StepTime(input=3.5, compute=6.5)) == "input"


@pytest.mark.parametrize("busy", [{"cpu_seconds": 18.0}, {"stalled_seconds": 4.0}])
def test_a_ps_short_of_processor_time_is_told_from_a_narrow_link(busy: dict[str, float]):
    waits = StepTime(pull=4, compute=4, push=2)
    assert verdict(waits, processes=[CALM]) == "link"
    assert verdict(waits, processes=[CALM, Used(**{**vars(CALM), "index": 1, **busy})]) == "ps"


def test_a_busy_worker_is_no_busy_ps():
    waits = StepTime(pull=4, compute=4, push=2)
    busy = Used(**{**vars(CALM), "role": "worker", "cpu_seconds": 20.0})
    assert verdict(waits, processes=[CALM, busy]) == "link"


def test_waits_of_processes_that_get_no_core_are_not_the_networks():
    waits = StepTime(pull=2, compute=5, push=1.5, input=1.5)
    worker = Used(**{**vars(CALM), "role": "worker"})
    slow, slow_worker = (Used(**{**vars(one), "stalled_seconds": 1.5}) for one in (CALM, worker))
    composed = "rankmixer: composed block"
    assert verdict(waits, processes=[CALM, worker]) == "link"
    found = diagnose(Figures([waits], steps=10, processes=[slow, slow_worker], block=composed))
    assert [finding.layer for finding in found.findings] == ["operators", "cores"]
    narrow = StepTime(pull=4, compute=1, push=5)  # too long a wait to be that of a few late starts
    assert verdict(narrow, processes=[slow, slow_worker]) == "link"
    held_up = Used(**{**vars(CALM), "stalled_seconds": 5.0})
    assert verdict(narrow, processes=[held_up, slow_worker]) == "ps"
    assert verdict(StepTime(input=2.5, compute=6, pull=1.5), processes=[slow, slow_worker]) == "cores"


def test_time_in_which_a_worker_waits_for_a_slower_one_is_the_slower_ones():
    slow, waiting = StepTime(input=6, compute=3, all_reduce=1), StepTime(compute=3, all_reduce=7)
    assert slowest([waiting, slow]) == 1
    assert verdict(waiting, slow) == "input"


def test_all_workers_waiting_in_the_all_reduce_is_the_all_reduce():
    times = [StepTime(compute=6, all_reduce=4), StepTime(compute=5, all_reduce=5)]
    found = diagnose(Figures(times, steps=10, dense_parameters=1_000_000))
    assert found.verdict == "all-reduce"
    assert "4.0 MB" in " ".join(found.findings[0].evidence)
    assert found.findings[0].change[0][0] == "training.batch_size"


def test_operators_come_last_and_only_where_blocks_are_composed():
    computes = StepTime(compute=9, pull=1)
    assert verdict(computes, block="rankmixer: composed block") == "operators"
    assert verdict(computes, block="rankmixer: fused block (avx2)") == "none"
    waits = StepTime(compute=5, all_reduce=5)
    found = diagnose(Figures([waits], steps=1, block="rankmixer: composed block"))
    assert [finding.layer for finding in found.findings] == ["all-reduce", "operators"]


def test_a_change_fits_the_settings_that_there_are():
    waits = [StepTime(pull=5, compute=5)]
    half = diagnose(Figures(waits, 1, settings={"embeddings.transport": "float16"}))
    full = diagnose(Figures(waits, 1, settings={"embeddings.transport": "float32"}))
    assert "embeddings.transport" not in dict(half.findings[0].change)
    assert "embeddings.transport" in dict(full.findings[0].change)


def test_checkpoints_and_the_time_between_steps_are_layers_too():
    assert verdict(StepTime(compute=8, checkpoint=2)) == "checkpoint"
    assert verdict(StepTime(compute=6, other=4)) == "program"
