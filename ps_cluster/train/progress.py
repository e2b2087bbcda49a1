"""What a training loop tells while it runs, and at its end."""

from __future__ import annotations

from dataclasses import dataclass

import tf_keras

from ps_cluster.train.batches import ReadCounts
from ps_cluster.train.expert_shares import ExpertShares
from ps_cluster.train.state import TrainingState
from ps_cluster.train.step_time import StepTime


@dataclass(frozen=True)
class Progress:
    """Figures since the last report, over all workers.

    calibration: mean prediction / mean label. gradient_norm: of the dense weights, in this step. sparse_bytes: that a
    worker and the PS exchanged in this step, as worker 0 saw it. window_steps: steps that `step_time` is of, by worker.
    read: what was wrong with the rows that this worker has read, since training began. staleness: how many steps a
    gradient of embeddings was late, in this step; None with synchronous updates, where none is.
    """

    step: int
    epoch: int
    rows: int
    loss: float
    auc: float | None
    samples_per_second: float
    rate_factor: float
    mfu: float
    experts: ExpertShares | None
    calibration: float | None
    gradient_norm: float
    sparse_bytes: int
    window_steps: int
    step_time: list[StepTime]
    read: ReadCounts
    staleness: float | None
    newest_event: float | None = None
    """As of `TrainingState`."""


@dataclass(frozen=True)
class Trained:
    """What a loop has done; seconds without the first step, in which TensorFlow traces the graph.

    state: where training stands. drained: it was asked to end before its time.
    """

    state: TrainingState
    drained: bool
    seconds: float
    samples_per_second: float
    mfu: float
    flops_per_row: float
    optimizer: tf_keras.optimizers.Optimizer
    counts: ReadCounts
