"""MFU from rows per second: the operations of a row at the mean length of its lists."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models.sparsity import SparsityControl
from ps_cluster.train.expert_shares import ExpertWindow
from ps_cluster.train.utilisation import Utilisation
from tests.ps_cluster.small_job import batch_of, ids_of, job_of


def test_a_rows_operations_are_three_forward_passes_at_the_mean_length_seen():
    job = job_of({"model": {"name": "dcn", "hidden": [], "cross_layers": 1, "attention": "dot"}})
    utilisation = Utilisation(job, peak=1e6)
    batches = [ids_of(job, batch_of(np.random.default_rng(seed), 40)) for seed in (1, 2)]
    for batch in batches:
        utilisation.add(batch, 40)
    length = np.mean([len(row) for batch in batches for row in batch["history"].to_list()])
    assert 0.5 < length < 3
    # Vectors user, shown, liked of 4, genres of 2, the attended history of 4, one number: a row of 19.
    cross, head = 2 * 19 * 19, 2 * 19
    attention = 2 * 4 * 4 + length * (2 * 4 + 2 * 4)
    assert utilisation.flops_per_row == pytest.approx(3 * (cross + head + attention))
    assert utilisation.at(100.0) == pytest.approx(3 * (cross + head + attention) * 100 / 1e6)


def test_shares_of_experts_are_over_all_rows_of_a_window():
    window = ExpertWindow(SparsityControl(0.5, 0.01, 1.1, name="control"))
    window.add(np.full([2, 3, 4], 7.0), 9)  # of a window before
    window.reset()
    first, second = np.zeros([2, 3, 4]), np.full([2, 3, 4], 30.0)
    second[0, 1, 2] = 0
    window.add(first, 10)
    window.add(second, 30)
    shares = window.shares()
    assert shares.active == pytest.approx(23 / 24 * 0.75)
    np.testing.assert_allclose(shares.layers, [[0, 11 / 12 * 0.75, 0.75], [0.75, 0.75, 0.75]])
    assert (shares.idle, shares.experts, shares.target) == (1, 24, 0.5)
    assert shares.penalty == pytest.approx(0.01)


def test_a_worker_without_rows_counts_no_elements():
    utilisation = Utilisation(job_of(), peak=1.0)
    empty = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int64), [0])
    utilisation.add({"history": empty}, 0)
    assert np.isfinite(utilisation.flops_per_row)
