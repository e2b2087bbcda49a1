"""How many rows a filter keeps, found by decoding only the columns that it needs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from data.read.part_reader import PartReader
from data.read.read_spec import ReadSpec
from data.read.stripes import Part
from data.read.threads import decode_threads

Progress = Callable[[int, int], None]
"""Told (rows done, rows in total) of a pass over the data."""

_BATCH = 64


def count_kept(spec: ReadSpec, parts: Sequence[Part], progress: Progress | None) -> np.ndarray:
    """Rows of each part that pass `where` and the sampling of `spec`, int64 `[parts]`.

    Decodes in threads, one stripe each at a time. With `on_bad: skip` what cannot be decoded counts in full.
    `progress` is told (rows done, rows in total). Raises `DataError` for a stripe that cannot be decoded.
    """
    local = threading.local()

    def count(run: list[Part]) -> list[int]:
        if not hasattr(local, "reader"):
            local.reader = PartReader(spec)
        return local.reader.count(run)

    kept: list[int] = []
    done, total = 0, sum(part.rows for part in parts)
    runs = [list(run) for _, run in itertools.groupby(parts, key=lambda part: part.stripe)]
    pool = ThreadPoolExecutor(decode_threads(spec), "count")
    try:
        for first in range(0, len(runs), _BATCH):
            some = runs[first : first + _BATCH]
            for run, found in zip(some, pool.map(count, some)):
                kept += found
                done += sum(part.rows for part in run)
                if progress is not None:
                    progress(done, total)
    finally:
        pool.shutdown(cancel_futures=True)
    return np.array(kept, np.int64)
