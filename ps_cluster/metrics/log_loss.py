"""Log-loss and probabilities in float64, straight from logits."""

from __future__ import annotations

import numpy as np


def log_losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """`-log p(label)` of each row: logits float `[n]`, bool labels `[n]` → float64 `[n]`.

    No sigmoid saturates on the way; inf only where an infinite logit has the wrong sign.
    """
    signed = np.where(labels, -1.0, 1.0) * logits.astype(np.float64)
    return np.logaddexp(0.0, signed)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """sigmoid(logits): float `[n]` → float64 `[n]`."""
    decay = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits >= 0, 1.0, decay) / (1.0 + decay)
