"""A job with experts trained by a real cluster: what its workers count together steers them alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import Run, job

EXPERTS = {"count": 4, "target_active": 0.75, "penalty_start": 0.01, "penalty_factor": 1.5}
MODEL = {"name": "rankmixer", "tokens": 4, "dim": 8, "layers": 1, "expansion": 2, "experts": EXPERTS}

FIELDS = job(model=MODEL, training__epochs=6, cluster={"ps": 1, "workers": 2}, optimizers__dense__learning_rate=0.03)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("experts")
    small_cluster.write_samples(folder)
    run = small_cluster.start(folder, FIELDS, "--report", str(folder / "report.json"))
    try:
        run.wait()
        assert run.status == 0, run.err + run.logs()
        yield run
    finally:
        run.kill_rest()


def test_the_penalty_of_each_step_follows_from_the_shares_over_all_workers(run: Run) -> None:
    told = [event["experts"] for event in run.events("step")]
    penalty, recent = EXPERTS["penalty_start"], 1.0
    for experts in told:
        share = experts["active"]
        penalty *= 1.5 if share + 2 * (share - recent) > 0.75 else 1 / 1.5
        recent += 0.1 * (share - recent)
        assert experts["penalty"] == pytest.approx(penalty, rel=1e-4)
    assert np.mean([experts["active"] for experts in told[:3]]) > 0.9
    assert min(experts["active"] for experts in told) < 0.75


@pytest.mark.slow
def test_two_runs_with_experts_have_the_same_losses_bit_for_bit(run: Run, tmp_path: Path) -> None:
    small_cluster.write_samples(tmp_path)
    again = small_cluster.train(tmp_path, FIELDS)
    assert again.status == 0, again.err + again.logs()
    assert again.losses() == run.losses()


def test_the_use_of_experts_is_in_the_report_and_on_the_screen(run: Run) -> None:
    report = json.loads((run.folder / "report.json").read_text())
    last = run.events("step")[-1]["experts"]
    assert report["experts"] == last
    assert last["experts"] == 1 * 4 * 4 and last["target"] == 0.75
    ((least, mean, most),) = last["layers"]
    assert 0 <= least <= mean <= most <= 1 and mean == pytest.approx(last["active"])
    assert f"  {100 * last['active']:.0f} % active, wanted 75 %, by a penalty of " in run.out
