"""Exact evaluation of a model on test rows that are spread over all workers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ps_cluster.errors import RunError
from ps_cluster.metrics.log_loss import log_losses, probabilities
from ps_cluster.metrics.pair_count import AllGather, ordered_pairs
from ps_cluster.metrics.score_keys import score_keys
from ps_cluster.metrics.score_runs import ScoreRuns


@dataclass(frozen=True)
class Evaluation:
    """Figures over the rows of all workers; the same on every worker. None: there is no such figure."""

    rows: int
    positives: int
    auc: float | None
    """Share of (positive, negative) pairs in the right order, ties 1/2. None without both classes."""
    log_loss: float | None
    """Mean of -log p(label), natural logarithm. None without rows."""
    calibration: float | None
    """Mean prediction divided by mean label: 1 is right, above 1 is too high. None without a positive row."""
    mean_prediction: float | None
    mean_label: float | None


class ScoreSpill:
    """Collects one worker's logits and labels in bounded memory; evaluates all workers' together.

    >>> with ScoreSpill(folder) as scores:
    ...     for logits, labels in batches:          # float32 [n] or [n, 1], labels of 0 and 1
    ...         scores.add(logits, labels)
    ...     evaluation = scores.evaluate(allgather)  # on every worker, also on those without rows

    AUC is exact: counted on the float32 logits in integers, and rounded once. Sums of log-loss and of
    predictions are float64. Wrong values (a nan, a label that is neither 0 nor 1) are reported by `evaluate`,
    on every worker alike, so that none is left waiting for the others.

    folder: where rows beyond `buffer_rows` are spilled to (4 bytes each); made when first needed, and then removed.
    buffer_rows: rows of this worker held in memory (5 bytes each).
    gather_rows: rows of all workers looked at together.
    """

    def __init__(self, folder: str, buffer_rows: int = 2**20, gather_rows: int = 2**20):
        if gather_rows < 1:
            raise ValueError(f"gather_rows: expected at least 1, found {gather_rows}")
        self._runs = ScoreRuns(folder, buffer_rows)
        self._gather_rows = gather_rows
        self._positives = self._negatives = self._nans = self._odd_labels = 0
        self._loss = self._prediction = 0.0

    def add(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """Add rows: float32 logits `[n]` or `[n, 1]`, as many labels of 0 and 1 (any number type)."""
        logits, labels = np.asarray(logits), np.asarray(labels)
        if logits.dtype != np.float32:
            raise ValueError(f"logits: expected float32, found {logits.dtype}")
        if logits.size != labels.size:
            raise ValueError(f"labels: expected one for each of {logits.size} logits, found {labels.size}")
        logits, labels = logits.reshape(-1), labels.reshape(-1)
        ones = labels == 1
        good = ~np.isnan(logits) & (ones | (labels == 0))
        if not good.all():
            self._nans += int(np.isnan(logits).sum())
            self._odd_labels += int((~ones & (labels != 0)).sum())
            logits, ones = logits[good], ones[good]
        positives = int(ones.sum())
        self._positives += positives
        self._negatives += len(ones) - positives
        self._loss += float(log_losses(logits, ones).sum())
        self._prediction += float(probabilities(logits).sum())
        self._runs.append(score_keys(logits), ones)

    def evaluate(self, allgather: AllGather) -> Evaluation:
        """Figures over all workers' rows. Collective: every worker calls it once, with or without rows.

        RunError, on every worker, when any score is nan or any label is neither 0 nor 1. Rows may be added
        afterwards and all evaluated again.
        """
        own = np.array([self._positives, self._negatives, self._nans, self._odd_labels], np.int64)
        counts = allgather(own).reshape(-1, len(own))
        sums = allgather(np.array([self._loss, self._prediction], np.float64)).reshape(-1, 2)
        positives, negatives, nans, odd_labels = (int(total) for total in counts.sum(axis=0))
        rows = positives + negatives
        if nans:
            raise RunError(f"evaluation: {_of_rows(counts, 2)} got nan as score: the model has diverged")
        if odd_labels:
            raise RunError(f"evaluation: {_of_rows(counts, 3)} have a label other than 0 and 1")
        loss, prediction = (math.fsum(column) for column in sums.T)
        auc = None
        if positives and negatives:
            twice_pairs = ordered_pairs(self._runs, positives, negatives, allgather, self._gather_rows)
            auc = twice_pairs / (2 * positives * negatives)
        return Evaluation(
            rows=rows,
            positives=positives,
            auc=auc,
            log_loss=loss / rows if rows else None,
            calibration=prediction / positives if positives else None,
            mean_prediction=prediction / rows if rows else None,
            mean_label=positives / rows if rows else None,
        )

    def auc(self, allgather: AllGather) -> float | None:
        """`evaluate(allgather).auc`."""
        return self.evaluate(allgather).auc

    @property
    def spilled_rows(self) -> int:
        """Rows of this worker that lie on disk."""
        return self._runs.spilled_rows

    def close(self) -> None:
        """Give back memory and disk; may be called again."""
        self._runs.close()

    def __enter__(self) -> ScoreSpill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def one_worker(array: np.ndarray) -> np.ndarray:
    """The `allgather` of a job with a single worker."""
    return array


def _of_rows(counts: np.ndarray, column: int) -> str:
    """`3 rows (worker 1: 3)`."""
    total = int(counts[:, column].sum())
    per_worker = ", ".join(f"worker {rank}: {row[column]}" for rank, row in enumerate(counts) if row[column])
    return f"{total} rows ({per_worker})"
