"""TensorBoard scalars, read back from the event file with TensorBoard's own reader."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

from ps_cluster.report import ScalarWriter
from tests.ps_cluster.run_events import run_events


def test_scalars_lie_at_their_steps(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorflow import make_ndarray

    with ScalarWriter(str(tmp_path / "tensorboard")) as writer:
        for event in run_events(auc=None):
            writer.handle(event)
    read = EventAccumulator(str(tmp_path / "tensorboard")).Reload()

    def scalars(tag: str) -> list[tuple[int, float]]:
        return [(item.step, float(make_ndarray(item.tensor_proto))) for item in read.Tensors(tag)]

    assert scalars("train/loss") == [(step, pytest.approx(1 / step)) for step in (1, 2, 3, 4)]
    assert scalars("train/learning_rate_factor") == [(step, 0.5) for step in (1, 2, 3, 4)]
    assert scalars("train/calibration") == [(step, 1.25) for step in (1, 2, 3, 4)]
    assert scalars("step_seconds/all_reduce") == [(step, 0.5) for step in (2, 3, 4)]  # mean over workers
    assert scalars("test/log_loss") == [(4, pytest.approx(0.4321))]
    assert scalars("tables/user/bytes") == [(4, 64000.0)]
    assert "test/auc" not in read.Tags()["tensors"]  # None in these events


def test_tensorflow_is_not_imported_before_a_writer_is_made():
    check = "import sys, ps_cluster.report, ps_cluster.metrics; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
