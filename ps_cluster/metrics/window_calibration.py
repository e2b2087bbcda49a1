"""Calibration of a window of training steps, from sums that workers can add up."""

from __future__ import annotations

import numpy as np

from ps_cluster.metrics.log_loss import probabilities


class WindowCalibration:
    """Adds up predictions and labels.

    `sums` is float64 `[2]`: of predictions, and of labels. Sum it over workers, hand the sum to `window_calibration`,
    then `reset()`.
    """

    def __init__(self) -> None:
        self.sums = np.zeros(2, np.float64)

    def add(self, logits: np.ndarray, labels: np.ndarray, offsets: np.ndarray | None = None) -> None:
        """Add rows: float logits `[n]`, as many labels of 0 and 1, and what sampling added to the log-odds of each
        label (`data.sampling`), so that predictions are for the rows as they were sampled."""
        logits = np.asarray(logits)
        if offsets is not None:
            logits = logits - np.asarray(offsets)
        self.sums += [probabilities(logits).sum(dtype=np.float64), np.asarray(labels).sum(dtype=np.float64)]

    def reset(self) -> None:
        """Start the next window."""
        self.sums.fill(0)


def window_calibration(sums: np.ndarray) -> float | None:
    """Mean prediction divided by mean label: 1 is right. None without a positive row."""
    predictions, positives = np.asarray(sums, np.float64).tolist()
    return predictions / positives if positives else None
