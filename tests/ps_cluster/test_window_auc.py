"""The quick AUC of a training window against the exact one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.metrics import WindowAuc, window_auc
from tests.ps_cluster.test_exact_auc import arrays, auc_by_pairs, score_lists


@given(rows=score_lists, bins=st.integers(1, 50))
@settings(deadline=None)
def test_it_is_off_by_at_most_half_the_pairs_in_one_bin(rows, bins):
    scores, labels = arrays(rows)
    window = WindowAuc(bins)
    window.add(scores, labels)
    found, exact = window_auc(window.counts), auc_by_pairs(scores, labels)
    assert window.counts.sum() == len(rows)
    if exact is None:
        assert found is None
        return
    shared = (window.counts[0] * window.counts[1]).sum() / (labels.sum() * (1 - labels).sum())
    assert abs(found - exact) <= shared / 2 + 1e-12


def test_it_is_exact_where_every_bin_holds_one_probability():
    probabilities = np.array([0.1, 0.2, 0.2, 0.5, 0.8, 0.8, 0.9])
    labels = np.array([0, 0, 1, 0, 1, 0, 1])
    window = WindowAuc()
    window.add(np.log(probabilities / (1 - probabilities)).astype(np.float32), labels)
    assert window_auc(window.counts) == pytest.approx(auc_by_pairs(probabilities, labels), abs=1e-12)


def test_counts_of_two_workers_add_up():
    random = np.random.default_rng(1)
    scores, labels = random.normal(size=(2, 100, 1)).astype(np.float32), random.random((2, 100)) < 0.5
    together, parts = WindowAuc(), [WindowAuc(), WindowAuc()]
    for rank, part in enumerate(parts):
        part.add(scores[rank], labels[rank])
        together.add(scores[rank], labels[rank])
    np.testing.assert_array_equal(parts[0].counts + parts[1].counts, together.counts)


def test_a_nan_score_shows_until_the_reset():
    window = WindowAuc()
    window.add(np.array([np.nan, 1, 0], np.float32), np.array([0, 1, 0]))
    assert math.isnan(window_auc(window.counts))
    window.reset()
    assert window_auc(window.counts) is None
    window.add(np.array([1, 0], np.float32), np.array([1, 0]))
    assert window_auc(window.counts) == 1.0
