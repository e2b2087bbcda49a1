"""What a client of a SavedModel sends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ps_cluster.job.schema import Job


def serving_inputs(job: Job, batch: Mapping, padding: int) -> dict[str, np.ndarray]:
    """A batch's features by name; lists padded with `padding`, beside their lengths."""
    inputs: dict[str, np.ndarray] = {}
    for feature in job.features:
        value = batch[feature.name]
        if feature.kind == "id_list":
            lengths = np.array([len(one) for one in value], np.int64)
            padded = np.full([len(value), 2 + max(lengths, default=0)], padding, np.int64)
            for row, one in enumerate(value):
                padded[row, : len(one)] = one
            inputs[feature.name], inputs[feature.name + "_length"] = padded, lengths
        else:
            inputs[feature.name] = np.asarray(value, np.float32 if feature.kind == "dense" else np.int64)
    return inputs
