"""A job that insists on the fused block where the op library is not built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.ps_cluster import small_cluster
from tests.ps_cluster.small_cluster import ROOT, job

MODEL = {"name": "rankmixer", "tokens": 4, "dim": 8, "layers": 1, "fused": "on"}


def test_it_ends_before_training_and_says_what_is_missing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    left_out = shutil.ignore_patterns("__pycache__", "_rankmixer*.so")
    for package in ("data", "models", "ops", "ps_cluster"):
        shutil.copytree(ROOT / package, source / package, ignore=left_out)
    small_cluster.write_samples(tmp_path)
    (tmp_path / "job.yaml").write_text(json.dumps(job(model=MODEL, cluster={"ps": 0})))
    done = subprocess.run(
        [sys.executable, "-m", "ps_cluster", "train", "job.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=small_cluster.PATIENCE_SECONDS,
        check=False,
    )
    missing = f"{source}/ops/_rankmixer.so: expected an op library for TensorFlow 2.16.2, found no such file;"
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"job.yaml: model.fused: expected a fused block for fused: on, found {missing}" in done.stderr
    events = [json.loads(line)["event"] for line in (tmp_path / "out/events.jsonl").read_text().splitlines()]
    assert "start" not in events and "step" not in events
