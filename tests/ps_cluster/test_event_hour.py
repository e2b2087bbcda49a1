"""The event time of a batch, as tables that evict by hours see it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ps_cluster.job.load import load_job
from ps_cluster.train.step import event_hour
from tests.ps_cluster.job_texts import DEEPFM, STORE, write

SECONDS = STORE.replace("    column: time\n", "    column: time\n    unit: seconds\n")


@pytest.mark.parametrize(("text", "unit"), [(STORE, 3_600_000), (SECONDS, 3_600)], ids=["milliseconds", "seconds"])
def test_the_latest_row_of_a_batch_tells_the_hour(tmp_path: Path, text: str, unit: int) -> None:
    job = load_job(write(tmp_path, text)).job
    hour = tf.function(
        lambda times: event_hour(job, {"time": times}), input_signature=[tf.TensorSpec([None], tf.int64)]
    )
    times = np.array([5, 490_000, 489_999]) * unit + np.array([0, unit - 1, 0])
    assert int(hour(times)) == 490_000
    assert int(hour(times[[0]])) == 5
    assert int(hour(times[:0])) == 0
    assert int(hour(-times)) == 0


def test_without_a_time_the_hour_is_not_known(tmp_path: Path) -> None:
    assert event_hour(load_job(write(tmp_path, DEEPFM)).job, {}) == 0
