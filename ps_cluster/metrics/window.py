"""AUC of a window of training steps, from histograms that workers can add up."""

from __future__ import annotations

import numpy as np

from ps_cluster.metrics.log_loss import probabilities


class WindowAuc:
    """Counts rows by label and predicted probability.

    `counts` is int64 `[2, bins + 1]`: rows with label 0, then with label 1; column `i` counts probabilities
    from `i / bins` up to `(i + 1) / bins`, the last column scores that were nan. Sum it over workers element
    by element, hand the sum to `window_auc`, then `reset()`.
    """

    def __init__(self, bins: int = 4096):
        self._bins = bins
        self.counts = np.zeros((2, bins + 1), np.int64)

    def add(self, logits: np.ndarray, labels: np.ndarray) -> None:
        """Add rows: float logits `[n]` or `[n, 1]`, as many labels; a label above 1/2 counts as 1."""
        logits, labels = np.asarray(logits).reshape(-1), np.asarray(labels).reshape(-1)
        nan = np.isnan(logits)
        scaled = probabilities(np.where(nan, np.float32(0), logits)) * self._bins
        column = np.where(nan, self._bins, np.minimum(scaled.astype(np.int64), self._bins - 1))
        place = column + (labels > 0.5) * (self._bins + 1)
        self.counts += np.bincount(place, minlength=self.counts.size).reshape(self.counts.shape)

    def reset(self) -> None:
        """Start the next window."""
        self.counts.fill(0)


def window_auc(counts: np.ndarray) -> float | None:
    """AUC of counts `[2, bins + 1]` (see `WindowAuc`), rows of one bin counting as ties.

    Off from the exact AUC by at most half the share of (positive, negative) pairs that lie in one bin. None
    without both classes, nan when any score was nan.
    """
    counts = np.asarray(counts, np.float64)
    if counts[:, -1].any():
        return float("nan")
    negatives, positives = counts[:, :-1]
    pairs = negatives.sum() * positives.sum()
    if not pairs:
        return None
    below = np.cumsum(negatives) - negatives
    return float((positives * (below + negatives / 2)).sum() / pairs)
