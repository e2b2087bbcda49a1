"""A link of the cluster is cut: a short cut nobody notices, a long one costs a restart at most, and no row is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile
from tests.ps_cluster import small_cluster
from tests.ps_cluster.chaos.by_hand import Cluster, cluster
from tests.ps_cluster.chaos.network import hosts
from tests.ps_cluster.small_cluster import job

pytestmark = pytest.mark.slow
EPOCHS, ROWS = 120, 320


def description(recovery: str, wait_seconds: int) -> dict[str, Any]:
    return job(
        training__epochs=EPOCHS,
        training__log_every_steps=10,
        cluster__workers=2,
        checkpoint__every_steps=20,
        failures={"recovery": recovery, "wait_seconds": wait_seconds},
        data__test=[],
    )


def last(run: Cluster) -> LastStep:
    file = LastStepFile(str(run.folder / "out" / LAST_STEP))
    found = file.read()
    file.close()
    assert found is not None
    return found


def trains(run: Cluster) -> bool:
    return (run.folder / "out" / LAST_STEP).exists() and last(run).step > 0


@pytest.mark.parametrize("recovery", ["job", "shard"])
@pytest.mark.parametrize(
    ("victim", "seconds", "wait_seconds"), [(1, 5, 300), (3, 5, 300), (1, 60, 30), (3, 60, 30), (1, 60, 300)]
)
def test_a_cut_link_loses_no_row(tmp_path: Path, recovery: str, victim: int, seconds: int, wait_seconds: int) -> None:
    """victim: PS 1 is on host 1, worker 1 on host 3."""
    small_cluster.write_samples(tmp_path)
    (tmp_path / "out").mkdir()
    with hosts(4) as network, cluster(tmp_path, description(recovery, wait_seconds), network) as run:
        run.until(lambda: trains(run) and run.events("checkpoint"))
        before = last(run).step
        network[victim].cut()
        run.run_for(seconds)
        network[victim].mend()
        run.until(lambda: last(run).step > before + 5 or all(worker.ended for worker in run.workers))
        run.finish()
        codes = Counter(code for member in run.members for code in member.codes)
        print(
            f"{recovery}: cut of {seconds} s at step {before}, limit {wait_seconds} s: ends {dict(codes)}, {last(run)}"
        )
        assert last(run).rows == EPOCHS * ROWS
        if seconds < wait_seconds:
            assert run.restarts() == 0, run.logs()
        else:
            assert "has waited 30 s for" in run.logs(), run.logs()
