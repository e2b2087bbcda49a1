"""Rows as a source file has them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from data.convert.rows import BadRow

# Rows and bytes of one batch: large enough for array operations, small beside any memory bound.
BATCH_ROWS = 4096
BATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class Raw:
    """Some rows of a source."""

    batch: pa.RecordBatch
    rows: np.ndarray  # int64 [rows]: their numbers in the source, from 0
    next_row: int  # rows before this one are done: in this batch or an earlier one, or bad
    bytes: int  # of the source that are read so far
    bad: list[BadRow] = field(default_factory=list)  # rows that could not be told apart into columns
    damage: str | None = None  # the source cannot be read on from here, and why
