"""What is trained on sampled rows predicts the click probability of all rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from data.orc_writer import OrcWriter
from ps_cluster.cli.main import main
from tests.ps_cluster.small_cluster import ROOT, command, train

USERS, ITEMS = 12, 10
JOB: dict[str, Any] = {
    "name": "sampled",
    "data": {
        "train": ["train.orc"],
        "test": ["test.orc"],
        "label": "click",
        "sampling": {
            "seed": 4,
            "time": {"column": "time"},
            "rules": [
                {"label": 0, "keep": 0.2},
                {"label": 0, "when": "user < 4", "weight": 3},
                {"label": 0, "newest_hours": 24, "weight": 2},
                {"bands": {"column": "item", "bounds": [2], "keep": [0.5, 1]}},
            ],
        },
    },
    "features": [{"name": "user", "kind": "id", "dim": 4}, {"name": "item", "kind": "id", "dim": 4}],
    "model": {"name": "deepfm", "fm_dim": 4, "hidden": [16]},
    "optimizers": {
        "sparse": {"name": "adam", "learning_rate": 0.01},
        "dense": {"name": "adam", "learning_rate": 0.01},
    },
    "schedule": {"decay": "cosine", "decay_steps": 500, "final": 0.02},
    "training": {"batch_size": 512, "epochs": 6, "seed": 2},
    "cluster": {"ps": 0},
    "output": "out",
}


def write_log(path: Path, rows: int, seed: int) -> None:
    """Clicks with the probability `truth`, a function of user and item; 17 % of the rows are clicks."""
    random = np.random.default_rng(seed)
    user, item = random.integers(USERS, size=rows), random.integers(ITEMS, size=rows)
    truth = 1 / (1 + np.exp(-(-2.0 + 0.12 * (user - 5) + 0.2 * (item - 4) * (user % 2))))
    columns = {
        "user": user,
        "item": item,
        "click": (random.random(rows) < truth).astype(np.int64),
        "time": random.integers(10 * 86_400_000, size=rows),
        "truth": truth,
    }
    batch = pa.RecordBatch.from_pydict(columns)
    with OrcWriter(str(path), batch.schema) as writer:
        writer.write(batch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training and test rows."""
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "train.orc", 150_000, 1)
    write_log(folder / "test.orc", 60_000, 2)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, dict[str, Any]]:
    """Figures of two trainings: with the offsets, and without."""
    for how, epochs in (("with", 6), ("without", 2)):
        training = {**JOB["training"], "epochs": epochs}
        job = {**JOB, "name": f"sampled-{how}", "output": f"out-{how}", "training": training}
        (folder / f"{how}.yaml").write_text(yaml.safe_dump(job))
    return trained(folder, "with", "without")


def trained(folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """Trains jobs in a process of their own; their figures."""
    command = [sys.executable, "-m", "tests.ps_cluster.sampled_training", str(folder), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return {how: json.loads((folder / f"{how}.json").read_text()) for how in names}


def test_predictions_are_calibrated_as_if_nothing_had_been_sampled(found: dict[str, dict[str, Any]]) -> None:
    figures = found["with"]
    assert 0.2 < figures["kept"] / figures["read"] < 0.45
    assert figures["calibration"] == pytest.approx(1, abs=0.05)
    assert figures["served_calibration"] == pytest.approx(figures["calibration"], abs=1e-4)
    assert figures["served_error"] < 0.02
    assert figures["exported"]["sampling"] == figures["recorded"]
    assert figures["recorded"]["rules"][0]["rates"] == [{"rows": "all", "rate": 0.2}]


@pytest.mark.slow
def test_files_sampled_before_train_the_same(folder: Path, found: dict[str, dict[str, Any]]) -> None:
    assert main(["data", "sample", str(folder / "with.yaml"), "--out", str(folder / "sampled")]) == 0
    data = {**JOB["data"], "train": ["sampled"], "sampling": {"presampled": True}}
    job = {**JOB, "name": "presampled", "output": "out-presampled", "data": data}
    (folder / "presampled.yaml").write_text(yaml.safe_dump(job))
    figures = trained(folder, "presampled")["presampled"]
    assert figures["kept"] == figures["read"] == found["with"]["kept"]
    assert figures["calibration"] == pytest.approx(1, abs=0.05)
    assert figures["served_error"] < 0.02
    assert figures["exported"]["sampling"] == figures["recorded"] == found["with"]["recorded"]


def test_without_the_offset_they_would_be_far_too_high(found: dict[str, dict[str, Any]]) -> None:
    figures = found["without"]
    assert figures["calibration"] > 1.5
    assert figures["served_calibration"] > 1.5
    assert figures["served_error"] > 0.1


@pytest.mark.slow
def test_a_cluster_samples_the_rows_that_data_sample_counts(tmp_path: Path) -> None:
    write_log(tmp_path / "train.orc", 150_000, 1)
    write_log(tmp_path / "test.orc", 60_000, 2)
    job = {**JOB, "cluster": {"ps": 1, "workers": 2}, "schedule": {**JOB["schedule"], "decay_steps": 250}}
    run = train(tmp_path, job, "--report", "report.json")
    assert run.status == 0, run.err
    counted = command(tmp_path, "data", "sample", "job.yaml", "--dry-run", "--json")
    assert counted.returncode == 0, counted.stderr
    kept = json.loads(counted.stdout)["all"]["kept"]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["rows"] == JOB["training"]["epochs"] * kept
    assert report["calibration"] == pytest.approx(1, abs=0.05)
    evaluated = command(tmp_path, "evaluate", "job.yaml")
    assert json.loads(evaluated.stdout)["calibration"] == pytest.approx(report["calibration"], abs=1e-6)
    run_json = json.loads((run.output / "run.json").read_text())
    exported = json.loads((run.output / "export" / "1" / "assets.extra" / "training.json").read_text())
    assert run_json["sampling"] == exported["sampling"] == report["sampling"]
    assert report["sampling"]["rules"][0]["rates"] == [{"rows": "all", "rate": 0.2}]
