"""The plan of a read: from files to the parts of stripes that one shard reads, and how many rows they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from data.errors import DataError
from data.footers import FileSummary, Footer, read_good_footers
from data.read_spec import ReadSpec
from data.stripes import Part, hulls, shard_parts, whole

Progress = Callable[[int, int], None]
"""Told (rows done, rows in total) of a pass over the data."""


@dataclass(frozen=True)
class Plan:
    """What a shard reads in every epoch, and what comes of it."""

    parts: tuple[Part, ...]
    """Row ranges of stripes, in the order of the files, each of at least one row."""
    kept: np.ndarray | None
    """Rows of each part that pass `where` and the sampling, int64 `[parts]`; None when nothing is filtered."""
    rows: int
    """Rows that an epoch gives."""
    batches: int
    """Batches that the whole stream gives, from `ReadSpec.start` on."""
    exact: bool
    """Whether `kept`, `rows` and `batches` are exact. Not with `on_bad: skip`, where they are the most there can be:
    wrong values and broken stripes are found only while reading."""
    lost: tuple[tuple[str, str], ...]
    """Files that are left out (`on_bad: skip`), with what is wrong with each."""
    files: FileSummary
    """The files that are read, all shards together."""

    @property
    def part_rows(self) -> np.ndarray:
        """Rows that each part gives, int64 `[parts]`."""
        if self.kept is not None:
            return self.kept
        return np.array([part.rows for part in self.parts], np.int64)


def plan(spec: ReadSpec, progress: Progress | None = None) -> Plan:
    """Reads the footers of all files and divides their rows; with a filter, counts the rows that this shard keeps by
    decoding the columns that the filter needs.

    Raises `DataError` with one line for each problem of all the files (with `on_bad: skip`: only when no file is left),
    and when `spec.start` lies behind the end of its epoch.
    """
    footers, lost = read_good_footers(spec)
    ranges = [part for footer in footers for part in _ranges(footer, spec)]
    parts = shard_parts(ranges, spec.shard, spec.num_shards)
    kept = None
    if spec.filter_columns and parts:
        from data.counting import count_kept

        kept = count_kept(spec, parts, progress)
    rows = sum(part.rows for part in parts) if kept is None else int(kept.sum())
    exact = spec.on_bad == "error"
    if exact and spec.start.row > rows:
        raise DataError(
            f"{', '.join(spec.paths)}: expected at least {spec.start.row} rows in a pass, to go on behind them, "
            f"found {rows}; the files changed"
        )
    return Plan(
        parts=parts,
        kept=kept,
        rows=rows,
        batches=stream_batches(rows, spec),
        exact=exact,
        lost=lost,
        files=FileSummary.of(footers),
    )


def stream_batches(rows: int, spec: ReadSpec) -> int:
    """Batches of the stream of `spec` when an epoch gives `rows` rows."""

    def batches(count: int) -> int:
        return count // spec.batch_rows if spec.drop_remainder else -(-count // spec.batch_rows)

    epochs_left = spec.epochs - spec.start.epoch
    if epochs_left == 0:
        return 0
    return batches(max(rows - spec.start.row, 0)) + (epochs_left - 1) * batches(rows)


def _ranges(footer: Footer, spec: ReadSpec) -> Sequence[Part]:
    """The rows of a file that may pass `where`."""
    if spec.where is None:
        return whole(footer.stripes)
    from data.files import open_input
    from data.orc_tail import read_tail
    from data.pruning import prune

    with open_input(footer.path) as file:
        parts = prune(footer, read_tail(file, footer.path), spec.where)
    # Shuffling takes the parts of a stripe at different times, and a stripe is decoded as a whole.
    return hulls(parts) if spec.shuffled else parts
