"""What a worker's steps have shown since the last report."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from data.sample.sampling import OFFSET
from models.sparsity import SparsityControl
from ps_cluster.metrics.window import WindowAuc, window_auc
from ps_cluster.metrics.window_calibration import WindowCalibration, window_calibration
from ps_cluster.train.collective import total
from ps_cluster.train.expert_shares import ExpertShares, ExpertWindow
from ps_cluster.train.state import TrainingState
from ps_cluster.train.step import StepResult


class Window:
    """Losses and experts are of all workers, as each step tells them; predictions are of this worker's rows, and all
    workers add theirs up when they are asked for."""

    def __init__(self, sparsity: SparsityControl | None) -> None:
        self._losses: list[tuple[float, int]] = []
        self._auc, self._calibration = WindowAuc(), WindowCalibration()
        self._experts = ExpertWindow(sparsity) if sparsity is not None else None

    def restore(self, state: TrainingState, first: bool) -> None:
        """The window is the one that was open then. first: this is worker 0, which goes on with all predictions."""
        self._losses = list(state.losses)
        if first:
            self._auc.counts += state.window
            self._calibration.sums += state.calibration
        if self._experts is not None and state.experts is not None:
            self._experts.restore(state.experts, state.experts_rows)

    def step_done(self, loss: float, rows: int) -> None:
        """A step of all workers."""
        self._losses.append((loss, rows))

    def add(self, result: StepResult, columns: dict[str, tf.Tensor], labels: np.ndarray) -> None:
        """What this worker saw of the step."""
        logits = result.logits.numpy()
        self._auc.add(logits, labels)
        self._calibration.add(logits, labels, columns.get(OFFSET))
        if self._experts is not None and result.active is not None:
            self._experts.add(result.active.numpy(), int(result.rows))

    @property
    def loss(self) -> float:
        """Mean over rows."""
        return sum(loss * rows for loss, rows in self._losses) / max(sum(rows for _, rows in self._losses), 1)

    @property
    def experts(self) -> ExpertShares | None:
        return self._experts.shares() if self._experts is not None else None

    def auc(self) -> float | None:
        """Of all workers' rows; every worker calls it."""
        return window_auc(total(self._auc.counts))

    def calibration(self) -> float | None:
        """Of all workers' rows; every worker calls it."""
        return window_calibration(total(self._calibration.sums))

    def state(self) -> dict[str, Any]:
        """The fields of a `TrainingState` that `restore` reads; every worker calls it."""
        auc, calibration = total(self._auc.counts), total(self._calibration.sums)
        experts, experts_rows = self._experts.sums if self._experts is not None else (None, 0)
        return {
            "losses": tuple(self._losses),
            "window": auc.copy(),
            "calibration": calibration.copy(),
            "experts": experts,
            "experts_rows": experts_rows,
        }

    def reset(self) -> None:
        """A new window."""
        self._losses.clear()
        self._auc.reset()
        self._calibration.reset()
        if self._experts is not None:
            self._experts.reset()
