"""Labels are 0 or 1: the check of a batch, and the search for the row that breaks it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.columns import Column
from data.errors import DataError
from data.read.footers import read_good_footers
from data.read.part_reader import find_rows
from data.read.read_spec import ReadSpec
from data.read.stripes import whole


def check_labels(labels: np.ndarray, column: Column, spec: ReadSpec) -> None:
    """Returns when a batch's labels are all 0 or 1.

    Raises:
      DataError: one is not; names file, column and row of the first such row that `spec` reads.
    """
    if not _wrong(labels).any():
        return
    # Batches do not carry where their rows come from; this happens once, at the end of a run.
    alone = replace(spec, columns=(column,), sampling=None)
    for footer in read_good_footers(alone)[0]:
        for part in whole(footer.stripes):
            rows, numbers = find_rows(alone, part)
            values = rows.column(0).to_numpy(zero_copy_only=False)
            wrong = np.flatnonzero(_wrong(values))
            if wrong.size:
                raise DataError(
                    f"{footer.path}: column {column.name}: row {numbers[wrong[0]]} (counted from 0): "
                    f"expected 0 or 1, found {values[wrong[0]]:g}"
                )
    raise DataError(
        f"{', '.join(spec.paths)}: column {column.name}: expected 0 or 1; the files changed while they were read"
    )


def _wrong(labels: np.ndarray) -> np.ndarray:
    return ~np.isin(labels, (0, 1))
