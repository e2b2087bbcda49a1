"""Labels are 0 or 1: the check of a batch, and the search for the row that breaks it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from data.batches import PartReader
from data.columns import Column
from data.errors import DataError
from data.footers import read_footers
from data.stripes import Part


def check_labels(labels: np.ndarray, column: Column, paths: Sequence[str]) -> None:
    """Returns when a batch's labels are all 0 or 1.

    Raises:
      DataError: one is not; names file, column and row of the first such label in `paths`.
    """
    if not _wrong(labels).any():
        return
    # Batches do not carry where their rows come from; this happens once, at the end of a run.
    reader = PartReader([column])
    for footer in read_footers(paths, [column]):
        for stripe in footer.stripes:
            values = reader.read(Part(stripe, 0, stripe.rows)).column(0).to_numpy(zero_copy_only=False)
            wrong = np.flatnonzero(_wrong(values))
            if wrong.size:
                raise DataError(
                    f"{stripe.path}: column {column.name}: row {stripe.first_row + int(wrong[0])} (counted from 0): "
                    f"expected 0 or 1, found {values[wrong[0]]:g}"
                )
    raise DataError(
        f"{', '.join(paths)}: column {column.name}: expected 0 or 1; the files changed while they were read"
    )


def _wrong(labels: np.ndarray) -> np.ndarray:
    return ~np.isin(labels, (0, 1))
