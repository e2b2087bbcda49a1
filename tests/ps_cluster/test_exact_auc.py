"""Exact AUC, log-loss and calibration against brute force, on one and on several workers."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.errors import RunError
from ps_cluster.metrics import Evaluation, ScoreSpill, one_worker
from tests.ps_cluster.gather import Workers

TIED = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), 1e-45, -1e-45, 3.4e38, -3.4e38, 17.5, 17.500002]
score_lists = st.lists(
    st.tuples(st.sampled_from(TIED) | st.floats(width=32, allow_nan=False), st.integers(0, 1)), max_size=60
)


def arrays(rows: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([score for score, _ in rows], np.float32), np.array([label for _, label in rows], np.int64)


def auc_by_pairs(scores: np.ndarray, labels: np.ndarray) -> float | None:
    """Every pair looked at: O(n²)."""
    positives, negatives = scores[labels == 1], scores[labels == 0]
    if not len(positives) or not len(negatives):
        return None
    higher = (positives[:, None] > negatives[None, :]).sum()
    equal = (positives[:, None] == negatives[None, :]).sum()
    return float((int(higher) + 0.5 * int(equal)) / (len(positives) * len(negatives)))


def auc_by_ranks(scores: np.ndarray, labels: np.ndarray) -> float:
    """Mann-Whitney from mean ranks in float64."""
    _, place, counts = np.unique(scores.astype(np.float64), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positives = int((labels == 1).sum())
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


def log_loss_by_definition(scores: np.ndarray, labels: np.ndarray) -> float:
    with np.errstate(over="ignore", divide="ignore"):
        wrong = scores.astype(np.longdouble) * np.where(labels == 1, -1, 1)
        losses = np.where(wrong > 40, wrong, np.log1p(np.exp(np.minimum(wrong, 41))))
    return float(losses.mean())


def evaluate(scores, labels, folder, allgather=one_worker, batch=7, **limits) -> Evaluation:
    with ScoreSpill(str(folder), **limits) as spill:
        for start in range(0, len(scores), batch):
            spill.add(scores[start : start + batch], labels[start : start + batch])
        return spill.evaluate(allgather)


@given(rows=score_lists, buffer_rows=st.integers(1, 20), gather_rows=st.integers(1, 30))
@settings(deadline=None, max_examples=150)
def test_auc_equals_counting_every_pair(tmp_path_factory, rows, buffer_rows, gather_rows):
    scores, labels = arrays(rows)
    folder = tmp_path_factory.getbasetemp()
    found = evaluate(scores, labels, folder, buffer_rows=buffer_rows, gather_rows=gather_rows)
    assert found.auc == auc_by_pairs(scores, labels)
    assert (found.rows, found.positives) == (len(labels), labels.sum())


@given(rows=score_lists)
@settings(deadline=None, max_examples=100)
def test_log_loss_and_calibration_equal_their_definitions(tmp_path_factory, rows):
    scores, labels = arrays(rows)
    found = evaluate(scores, labels, tmp_path_factory.getbasetemp())
    if not rows:
        assert (found.log_loss, found.mean_prediction, found.mean_label) == (None, None, None)
        return
    assert found.log_loss == pytest.approx(log_loss_by_definition(scores, labels), rel=1e-12, abs=1e-300)
    with np.errstate(over="ignore"):
        prediction = float((1 / (1 + np.exp(-scores.astype(np.longdouble)))).mean())
    assert found.mean_prediction == pytest.approx(prediction, rel=1e-12, abs=1e-300)
    assert found.mean_label == labels.mean()
    if labels.any():
        assert found.calibration == pytest.approx(prediction / labels.mean(), rel=1e-12, abs=1e-300)
    else:
        assert found.calibration is None


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_has_no_auc_but_a_log_loss(tmp_path, label):
    found = evaluate(np.zeros(5, np.float32), np.full(5, label), tmp_path)
    assert found.auc is None
    assert found.log_loss == pytest.approx(np.log(2))


def test_no_rows_have_no_figures(tmp_path):
    found = evaluate(np.empty(0, np.float32), np.empty(0), tmp_path)
    assert found == Evaluation(0, 0, None, None, None, None, None)


def test_saturated_probabilities_still_rank(tmp_path):
    scores = np.array([100, 101, 102, 103], np.float32)  # sigmoid in float32 is 1 for all of them
    assert evaluate(scores, np.array([0, 0, 1, 1]), tmp_path).auc == 1.0


@pytest.mark.parametrize("gather_rows", [100, 5_000, 10**9])
@pytest.mark.parametrize("spread", [0.0, 1e-30, 1e-3, 2.0, 1e30])
def test_large_runs_equal_the_ranks_whatever_the_limits(tmp_path, spread, gather_rows):
    random = np.random.default_rng(3)
    scores = (random.normal(size=40_000) * spread).astype(np.float32)
    scores[random.random(40_000) < 0.3] = np.float32(spread)  # crowded
    labels = random.random(40_000) < np.where(scores > 0, 0.6, 0.3)
    found = evaluate(scores, labels, tmp_path, batch=999, buffer_rows=2_500, gather_rows=gather_rows)
    assert found.auc == pytest.approx(auc_by_ranks(scores, labels), abs=1e-12)


def test_logits_may_come_as_a_column_and_labels_as_floats(tmp_path):
    with ScoreSpill(str(tmp_path)) as spill:
        spill.add(np.array([[1.0], [0.0], [2.0]], np.float32), np.array([1.0, 0.0, 0.0], np.float32))
        assert spill.auc(one_worker) == 0.5


def test_rows_may_be_added_after_an_evaluation(tmp_path):
    with ScoreSpill(str(tmp_path), buffer_rows=2) as spill:
        spill.add(np.array([1, 2, 3], np.float32), np.array([0, 1, 1]))
        assert (spill.auc(one_worker), spill.auc(one_worker)) == (1.0, 1.0)
        spill.add(np.array([4, 0, 4], np.float32), np.array([0, 0, 1]))
        assert spill.auc(one_worker) == auc_by_pairs(np.array([1, 2, 3, 4, 0, 4]), np.array([0, 1, 1, 0, 0, 1]))


@pytest.mark.parametrize("there", ["nothing", "the folder", "another file"])
def test_of_the_folder_for_many_rows_nothing_is_left_but_what_is_not_its_own(tmp_path, there):
    folder = tmp_path / "scratch"
    if there == "the folder":
        folder.mkdir()
    with ScoreSpill(str(folder), buffer_rows=2) as spill:
        assert folder.exists() == (there == "the folder")
        spill.add(np.array([1, 2, 3], np.float32), np.array([0, 1, 1]))
        assert list(folder.iterdir()) == []  # the file has no name
        if there == "another file":
            (folder / "kept").touch()
        assert spill.auc(one_worker) == 1.0
    assert folder.exists() == (there != "nothing")


def test_other_float_types_are_refused_since_rounding_would_make_ties(tmp_path):
    with (
        ScoreSpill(str(tmp_path)) as spill,
        pytest.raises(ValueError, match="expected float32, found float64"),
    ):
        spill.add(np.zeros(2), np.zeros(2))


def test_a_missing_label_is_refused(tmp_path):
    with ScoreSpill(str(tmp_path)) as spill, pytest.raises(ValueError, match="each of 3 logits, found 2"):
        spill.add(np.zeros(3, np.float32), np.zeros(2))


@pytest.fixture(scope="module")
def workers():
    workers = Workers(3)
    yield workers
    workers.close()


def worker(allgather, scores, labels, folder, buffer_rows, gather_rows):
    return evaluate(scores, labels, folder, allgather, buffer_rows=buffer_rows, gather_rows=gather_rows)


@given(
    shares=st.lists(score_lists, min_size=1, max_size=3),
    buffer_rows=st.integers(1, 20),
    gather_rows=st.integers(1, 100),
)
@settings(deadline=None, max_examples=40)
def test_workers_with_unequal_or_empty_shares_get_the_figures_of_all(
    tmp_path_factory, workers, shares, buffer_rows, gather_rows
):
    folder = tmp_path_factory.getbasetemp()
    found = workers.run(worker, [(*arrays(share), folder, buffer_rows, gather_rows) for share in shares])
    scores, labels = arrays([row for share in shares for row in share])
    assert len(set(found)) == 1
    assert found[0].auc == auc_by_pairs(scores, labels)
    if len(labels):
        assert found[0].log_loss == pytest.approx(log_loss_by_definition(scores, labels), rel=1e-12)


def test_three_workers_with_many_rows_and_one_without(tmp_path, workers):
    random = np.random.default_rng(5)
    shares = []
    for rows in (30_000, 0, 7_001):
        scores = np.round(random.normal(size=rows), 2).astype(np.float32)
        shares.append((scores, random.random(rows) < 0.2))
    folder = tmp_path / "scratch"
    found = workers.run(worker, [(*share, folder, 1_000, 3_000) for share in shares])
    scores, labels = (np.concatenate(parts) for parts in zip(*shares))
    assert found[0].auc == pytest.approx(auc_by_ranks(scores, labels), abs=1e-12)
    assert found == [found[0]] * 3
    assert not folder.exists()


@pytest.mark.parametrize(
    ("score", "label", "text"),
    [
        (
            float("nan"),
            1,
            "RunError: evaluation: 2 rows (worker 1: 2) got nan as score: the model has diverged",
        ),
        (0.5, 2, "RunError: evaluation: 2 rows (worker 1: 2) have a label other than 0 and 1"),
    ],
)
def test_a_wrong_value_on_one_worker_is_reported_by_all(tmp_path, workers, score, label, text):
    good = (np.array([1, 2], np.float32), np.array([0, 1]))
    bad = (np.array([1, score, score], np.float32), np.array([0, label, label]))
    assert workers.run(worker, [(*share, tmp_path, 10, 10) for share in (good, bad)]) == [text, text]


def test_spilled_scores_leave_no_file_behind(tmp_path):
    folder = tmp_path / "made when needed"
    with ScoreSpill(str(folder), buffer_rows=10) as spill:
        spill.add(np.zeros(8, np.float32), np.zeros(8))
        assert spill.spilled_rows == 0
        assert not folder.exists()
        spill.add(np.arange(25, dtype=np.float32), np.ones(25))
        assert spill.spilled_rows == 30
        assert list(folder.iterdir()) == []  # not even while it is in use
        assert spill.auc(one_worker) == pytest.approx(24.5 / 25)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with ScoreSpill(str(tmp_path / "file"), buffer_rows=1) as spill:
        spill.add(np.zeros(1, np.float32), np.zeros(1))
        with pytest.raises(RunError, match="file: cannot keep the scores of the evaluation"):
            spill.add(np.zeros(1, np.float32), np.zeros(1))


# Not ru_maxrss: that one also counts what the process was before exec.
MEMORY = r"""
import re, sys
import numpy as np
from ps_cluster.metrics import ScoreSpill, one_worker
rows, folder, crowd = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
random = np.random.default_rng(0)
with ScoreSpill(folder, buffer_rows=2**16, gather_rows=2**16) as spill:
    for start in range(0, rows, 10_000):
        scores = random.normal(size=10_000).astype(np.float32)
        scores[: int(crowd * 10_000)] = 1.0
        spill.add(scores, random.random(10_000) < 0.1)
    assert spill.spilled_rows >= rows - 2**16
    assert 0.49 < spill.auc(one_worker) < 0.51
print(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1])
"""


@pytest.mark.parametrize("crowd", [0.0, 0.9])
def test_memory_does_not_grow_with_the_rows(tmp_path, crowd):
    def peak_kilobytes(rows: int) -> int:
        command = [sys.executable, "-c", MEMORY, str(rows), str(tmp_path), str(crowd)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "."}
        )
        return int(done.stdout)

    few, many = peak_kilobytes(1_000_000), peak_kilobytes(3_000_000)
    assert many - few < 2_000  # the two million more rows are 8 MB as keys
