"""Whole trainings in pods: undisturbed, killed, drained, cut off, short of memory, and ended wrongly."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.errors import RESTART
from tests.bench import chaos
from tests.pods.trial import KUBERNETES, Trial, left, needs_pods, outside_tmp, rendered, running, small_job
from tests.ps_cluster import small_cluster

pytestmark = [pytest.mark.slow, outside_tmp]
PODS = ["clicks-ps-0", "clicks-ps-1", "clicks-worker-0", "clicks-worker-1"]
EPOCHS, ROWS = 20, 320
ROWS_A_STEP = 64
NO_BACK_OFF = 0.1


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    needs_pods()
    yield
    assert left(tmp_path) == []


def small(folder: Path, **changes: Any) -> str:
    """Rendered: the small job, with its samples on the volume."""
    (folder / "storage").mkdir()
    small_cluster.write_samples(folder / "storage")
    fields: dict[str, Any] = {"training__epochs": EPOCHS, "checkpoint__every_steps": 10, "data__test": [], **changes}
    return rendered(folder, small_job(**fields))


def ended_well(trial: Trial, epochs: int = EPOCHS) -> None:
    """All Jobs are complete, by themselves, and each row was trained once an epoch."""
    assert trial.ends() == 0, trial.all_logs()
    print(trial.says, trial.last())
    assert "complete: no pod is left" in trial.says
    assert "told to end, since" not in trial.says
    assert trial.last().rows == epochs * ROWS
    assert (trial.output / "export" / "1").is_dir()


def test_the_demo_job_completes_and_all_pods_end_by_themselves(tmp_path: Path) -> None:
    wheel = small_cluster.ROOT / "ps_cluster" / "setup" / "python.sh"
    where = (
        os.popen(f"cd '{small_cluster.ROOT}' && sh '{wheel}' -m ps_cluster.setup.env --where-movielens").read().strip()
    )
    done = small_cluster.command(tmp_path, "data", "movielens", str(tmp_path / "storage" / "samples"), "--wheel", where)
    assert done.returncode == 0, done.stderr
    description = (small_cluster.ROOT / "ps_cluster" / "examples" / "movielens.yaml").read_text()
    (tmp_path / "job.yaml").write_text(f"{description}\nkubernetes: {json.dumps(KUBERNETES)}\n")
    objects = small_cluster.command(tmp_path, "render", str(tmp_path / "job.yaml")).stdout
    with running(tmp_path, objects) as trial:
        assert trial.ends() == 0, trial.all_logs()
        print(trial.says)
        assert "told to end" not in trial.says and "attempt" not in trial.says
        report = json.loads((trial.storage / "run" / "report.json").read_text())
        print(f"AUC {report['auc']:.4f} of {report['test_rows']} test rows")
        assert report["auc"] > 0.75


def was_there_and_killed(trial: Trial, pod: str) -> bool:
    """A pod may end by itself between the look and the order."""
    return trial.pods().get(pod, {}).get("state") in ("ready", "starts") and trial.order("kill", pod).returncode == 0


def test_twenty_pods_are_killed_at_random_and_every_row_is_trained_exactly_once(tmp_path: Path) -> None:
    kills, between, rows_a_step = 20, 25, 2 * 64
    # Four times the steps that the kills are apart: an order takes its time while training goes on.
    rows = 4 * kills * between * rows_a_step
    description = json.loads(json.dumps(chaos.JOB))
    description["name"] = "clicks"
    description["data"].update(train=["samples/train-*.orc"], test=["samples/test-*.orc"])
    description["cluster"] = {"ps": 2, "workers": 2}
    description["checkpoint"] = {"every_steps": 10, "keep": 2, "deltas": 3}
    description["kubernetes"] = {**KUBERNETES, "retries": kills}
    chaos.numbered_log(tmp_path / "storage" / "samples", rows)
    objects, chance = rendered(tmp_path, description), random.Random(20)
    killed, target = [], 0.0
    with running(tmp_path, objects, back_off=NO_BACK_OFF) as trial:
        for number in range(kills):
            if number and chance.random() < 0.25:  # soon after the one before, among the restarts
                time.sleep(chance.uniform(0, 15))
            else:
                trial.until(lambda target=target: trial.last().step >= target)
            pod = chance.choice(PODS)
            trial.until(lambda pod=pod: was_there_and_killed(trial, pod))
            killed.append(f"{pod} at {trial.last().step}")
            target = trial.last().step + between * chance.uniform(0.3, 1.0)
        assert trial.ends() == 0, trial.all_logs()
        print(trial.says, "\n", ", ".join(killed), "\n", trial.last())
        assert trial.says.count("SIGKILL, as asked for") == kills
        assert trial.says.count("counted: ") - trial.says.count("not counted: ") >= kills - 1
        assert trial.last().rows == rows
        found = chaos.counted(trial.output)
        print(f"{len(found)} rows counted, {(found == 0).sum()} never, {(found > 1).sum()} more than once")
        assert len(found) == rows and (found == 1).all()


@pytest.mark.parametrize("index", [0, 1])
def test_after_a_worker_was_drained_training_goes_on_from_its_last_checkpoint(tmp_path: Path, index: int) -> None:
    with running(tmp_path, small(tmp_path, checkpoint__every_steps=100_000)) as trial:
        trial.until(lambda: trial.last().step >= 8)
        trial.does("drain", f"clicks-worker-{index}")
        trial.until(lambda: trial.says.count("ended with exit code 75") == 2)
        drained = trial.last().step
        assert trial.checkpoints() == [drained]
        ended_well(trial)
        assert (trial.last().restarts, trial.last().rows_retrained) == (1, 0)
        assert f"drained at step {drained}: checkpoint /storage/out/checkpoint/step-{drained:010d}" in trial.says
        assert "not counted" in trial.says and " counted: " not in trial.says.replace("not counted: ", "")
        assert "budget" not in trial.says


def test_told_to_stop_all_pods_end_after_a_last_checkpoint_and_the_next_run_goes_on(tmp_path: Path) -> None:
    objects = small(tmp_path, checkpoint__every_steps=100_000)
    with running(tmp_path, objects) as trial:
        trial.until(lambda: trial.last().step >= 8)
        refused = trial.order("drain", "clicks-ps-0")
        assert refused.returncode == 1 and "budget clicks-ps" in refused.stderr, refused.stderr
        trial.process.send_signal(signal.SIGTERM)
        assert trial.ends() == 128 + signal.SIGTERM
        assert trial.says.count(f"ended with exit code {RESTART}") == 4, trial.all_logs()
        drained = trial.last().step
        assert trial.checkpoints() == [drained]
        print(trial.says)
    assert left(tmp_path) == []
    (tmp_path / "said.log").unlink()
    with running(tmp_path, objects) as trial:
        ended_well(trial)
        assert (trial.last().restarts, trial.last().rows_retrained) == (1, 0)


def test_a_killed_ps_costs_the_steps_since_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    with running(tmp_path, small(tmp_path)) as trial:
        trial.until(lambda: trial.last().step > 12 and trial.checkpoints())
        whole = trial.checkpoints()[-1]
        trial.does("kill", "clicks-ps-1")
        told = [trial.last()]
        trial.until(lambda: told.append(trial.last()) or told[-1].restarts)
        ended_well(trial)
        assert "clicks-ps-1 ended with exit code 137 (SIGKILL)" in trial.says
        (resumed,) = map(int, re.findall(r"goes on after step (\d+) of /storage/out/", trial.log("clicks-worker-0")))
        assert resumed >= whole and trial.last().restarts == 1
        # The kill may have come at the very step of a checkpoint.
        again = next(each.rows for each in reversed(told) if not each.restarts) - resumed * ROWS_A_STEP
        assert trial.last().rows_retrained >= again


@pytest.mark.parametrize(
    ("pod", "recovery"), [("clicks-ps-1", "job"), ("clicks-worker-1", "job"), ("clicks-ps-1", "shard")]
)
def test_a_link_that_is_cut_for_a_while_costs_no_row(tmp_path: Path, pod: str, recovery: str) -> None:
    failures = {"wait_seconds": 20, "recovery": recovery}
    with running(tmp_path, small(tmp_path, failures=failures, training__epochs=60), back_off=NO_BACK_OFF) as trial:
        trial.until(lambda: trial.last().step > 12 and trial.checkpoints())
        trial.does("cut", pod)
        time.sleep(45)
        trial.order("mend", pod)  # whose container may be between two starts
        ended_well(trial, 60)


def test_a_ps_whose_memory_was_set_too_small_is_killed_and_the_last_line_says_what_plan_gives(tmp_path: Path) -> None:
    rows = 60_000
    description = json.loads(json.dumps(chaos.JOB))
    description["name"] = "clicks"
    description["data"].update(train=["samples/train-*.orc"], test=[])
    description["tables"]["rows"] = {"dim": 256}  # an id each, 3 kB with the optimiser's moments
    description["cluster"] = {"ps": 2, "workers": 2}
    # Enough for TensorFlow and its server, not for the table.
    description["kubernetes"] = {**KUBERNETES, "ps": {"memory": "320MiB", "cpu": 0.5}, "retries": 1}
    chaos.numbered_log(tmp_path / "storage" / "samples", rows)
    with running(tmp_path, rendered(tmp_path, description), back_off=NO_BACK_OFF) as trial:
        assert trial.ends() == 1, trial.all_logs()
        print(trial.says, trial.last())
        assert trial.last().step > 10
        assert "was OOMKilled with exit code 137: it wanted more memory than its limit of 320 MiB" in trial.says
        last = trial.says.splitlines()[-1]
        assert "failed: job clicks-ps has failed: MaxFailedIndexesExceeded" in last
        assert "`ps-cluster plan` asks for " in last


def test_a_pod_outside_the_job_cannot_reach_the_ports_of_its_pods(tmp_path: Path) -> None:
    ask = (
        "import socket, sys\n"
        "for host in ('clicks-ps-0', 'clicks-ps-1', 'clicks-worker-0'):\n"
        "  for port in (2222, 2223, 2224):\n"
        "    name = host + '.clicks.default.svc.cluster.local'\n"
        "    try: socket.create_connection((name, port), 2); print(host, port, 'open')\n"
        "    except OSError as error: print(host, port, error)\n"
    )
    outsiders = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"in-{namespace}", "namespace": namespace, "labels": {"app": "other"}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "any", "command": ["sleep", "10000"]}],
            },
        }
        for namespace in ("default", "monitoring")
    ]
    endless = small(tmp_path, training__epochs=100_000)
    objects = "\n---\n".join([endless, *map(json.dumps, outsiders)])
    with running(tmp_path, objects) as trial:
        trial.until(lambda: trial.last().step > 5)
        words = {
            name: trial.order("exec", name, "--", "python", "-c", ask).stdout
            for name in ("in-default", "in-monitoring")
        }
        inside = trial.order("exec", "clicks-worker-1", "--", "python", "-c", ask).stdout
        print(words, inside)
        assert "open" not in words["in-default"] and words["in-default"].count("timed out") == 9
        told = [line for line in words["in-monitoring"].splitlines() if line.endswith("open")]
        assert told == ["clicks-ps-0 2224 open", "clicks-ps-1 2224 open", "clicks-worker-0 2224 open"]
        assert "clicks-ps-0 2222 open" in inside and "clicks-worker-0 2223 open" in inside


def test_wrong_data_fail_the_run_at_once_and_the_last_line_says_why(tmp_path: Path) -> None:
    objects = small(tmp_path)
    shutil.move(tmp_path / "storage" / "train.orc", tmp_path / "storage" / "other.orc")
    with running(tmp_path, objects) as trial:
        assert trial.ends() == 1
        print(trial.says)
        last = trial.says.splitlines()[-1]
        assert "failed: job clicks-worker has failed: PodFailurePolicy" in last
        assert "ended with exit code 2: error: " in last and "train.orc" in last
