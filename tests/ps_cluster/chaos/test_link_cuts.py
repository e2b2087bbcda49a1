"""A link of the cluster is cut: a short cut nobody notices, a long one costs a restart at most, and no row is lost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile
from tests.ps_cluster import small_cluster
from tests.ps_cluster.chaos.by_hand import Cluster, cluster
from tests.ps_cluster.chaos.network import hosts
from tests.ps_cluster.small_cluster import job

pytestmark = pytest.mark.slow
STRIPES = (800, 800, 800, 800)
EPOCHS, ROWS = 12, sum(STRIPES)  # 600 steps
GIVEN_UP_SECONDS = 20
"""After so long without an answer to what it has sent a gRPC server gives up a connection, whatever the job says."""
NOISE = 0.02
"""Of the AUC: one step that was applied twice on one PS."""


def description(recovery: str, wait_seconds: int) -> dict[str, Any]:
    return job(
        training__epochs=EPOCHS,
        training__log_every_steps=10,
        cluster__workers=2,
        checkpoint__every_steps=20,
        failures={"recovery": recovery, "wait_seconds": wait_seconds},
    )


def write_samples(folder: Path) -> None:
    small_cluster.write_samples(folder, STRIPES, test=(1000,))
    (folder / "out").mkdir()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> float:
    """AUC of a run that nothing happens to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    write_samples(folder)
    run = small_cluster.train(folder, description("job", 300))
    assert run.status == 0, run.err + run.logs()
    return run.events("evaluation")[-1]["auc"]


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
def test_a_cut_link_loses_no_row(
    tmp_path: Path, undisturbed: float, recovery: str, victim: int, seconds: int, wait_seconds: int
) -> None:
    """victim: PS 1 is on host 1, worker 1 on host 3."""
    write_samples(tmp_path)
    with hosts(4) as network, cluster(tmp_path, description(recovery, wait_seconds), network) as run:
        run.until(lambda: trains(run) and run.events("checkpoint"))
        before, begun = last(run).step, time.monotonic()
        network[victim].cut()
        run.run_for(seconds)
        network[victim].mend()
        run.until(lambda: last(run).step > before + 5 or all(worker.ended for worker in run.workers))
        lost = time.monotonic() - begun
        run.finish()
        codes = {member.name: member.codes for member in run.members}
        auc = run.events("evaluation")[-1]["auc"]
        print(
            f"{recovery}: cut of {seconds} s at step {before}, limit {wait_seconds} s: goes on after {lost:.0f} s, "
            f"{last(run)}, AUC {auc:.4f} (undisturbed {undisturbed:.4f}), ends {codes}"
        )
        assert last(run).rows == EPOCHS * ROWS
        assert auc == undisturbed if recovery == "job" else abs(auc - undisturbed) < NOISE
        if seconds < GIVEN_UP_SECONDS:
            assert run.restarts() == 0, run.logs()
        elif seconds > wait_seconds:
            assert run.told("has waited 30 s for"), run.logs()
        assert all(len(member.codes) <= 2 for member in run.members), run.logs()  # restarted once at most
