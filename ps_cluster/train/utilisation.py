"""Model FLOPs utilisation (MFU): the operations that training must do, per second, over what the devices can do."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from models.flops import TRAINING, forward_flops
from ps_cluster.job.resolve import column_of, inputs_of
from ps_cluster.job.schema import Job


class Utilisation:
    """Adds up the batches of this worker, whose sequences stand for those of all workers.

    peak: operations per second of all workers together, as `ps_cluster.train.peak` measures them.
    """

    def __init__(self, job: Job, peak: float):
        inputs = inputs_of(job)
        self._flops = forward_flops(job.model, inputs, training=True)
        self._peak = peak
        columns = {feature.name: column_of(feature).name for feature in job.features}
        self._columns = {spec.name: columns[spec.name] for spec in inputs if spec.kind == "sequence"}
        self._rows = 0
        self._elements = dict.fromkeys(self._columns, 0)

    def add(self, columns: Mapping[str, tf.Tensor | tf.RaggedTensor], rows: int) -> None:
        """A batch of this worker; lists as ragged columns."""
        self._rows += rows
        for name, column in self._columns.items():
            self._elements[name] += int(np.prod(columns[column].flat_values.shape))

    @property
    def flops_per_row(self) -> float:
        """Operations of training one row, sequences at the mean length seen."""
        rows = max(self._rows, 1)
        return TRAINING * self._flops.of(1, {name: count / rows for name, count in self._elements.items()})

    def at(self, samples_per_second: float) -> float:
        """The share of the peak that so many rows a second of all workers are."""
        return samples_per_second * self.flops_per_row / self._peak
