"""The plan of a read: from files to the parts of stripes that one shard reads, and how many rows they give."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from data.checksums import Checksums, load, verify_stripe
from data.counting import Progress, count_kept
from data.errors import DataError
from data.files import open_input
from data.footers import FileSummary, Footer, read_good_footers
from data.orc_tail import Tail, read_tail
from data.pruning import prune
from data.read_spec import ReadSpec
from data.stripes import Part, hulls, shard_parts, whole
from data.where import Where

_READ_AT_ONCE = 8


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


@dataclass(frozen=True)
class Checked:
    """Files that can be read, and those that are left out (`on_bad: skip`) with what is wrong with each."""

    footers: tuple[Footer, ...]
    lost: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> FileSummary:
        """Totals of the files that can be read."""
        return FileSummary.of(self.footers)


def check(spec: ReadSpec) -> Checked:
    """Reads the footers of all files of `spec`.

    Raises `DataError` with one line for each problem of all the files; with `on_bad: skip` only when no row is left.
    """
    footers, lost = read_good_footers(spec)
    return Checked(tuple(footers), lost)


def plan(spec: ReadSpec, progress: Progress | None = None, checked: Checked | None = None) -> Plan:
    """Divides the rows of all files, without those that `where` certainly excludes; with a filter, counts the rows that
    this shard keeps by decoding the columns that the filter needs. `checked` is of `check` for the same files.

    Raises the `DataError` of `check`, one for a damaged index or stripe (not with `on_bad: skip`), and one when
    `spec.start` lies behind the end of its epoch.
    """
    checked = checked or check(spec)
    ranges, checked = _ranges(checked, spec)
    parts = shard_parts(ranges, spec.shard, spec.num_shards)
    kept = count_kept(spec, parts, progress) if spec.filter_columns and parts else None
    rows = sum(part.rows for part in parts) if kept is None else int(kept.sum())
    exact = spec.on_bad == "error"
    if exact and spec.start.row > rows:
        raise DataError(
            f"{', '.join(spec.paths)}: expected at least {spec.start.row} rows in a pass, to go on behind them, "
            f"found {rows}; the files changed"
        )
    return Plan(parts, kept, rows, stream_batches(rows, spec), exact, checked.lost, checked.summary)


def stream_batches(rows: int, spec: ReadSpec) -> int:
    """Batches of the stream of `spec` when an epoch gives `rows` rows."""

    def batches(count: int) -> int:
        return count // spec.batch_rows if spec.drop_remainder else -(-count // spec.batch_rows)

    epochs_left = spec.epochs - spec.start.epoch
    if epochs_left == 0:
        return 0
    return batches(max(rows - spec.start.row, 0)) + (epochs_left - 1) * batches(rows)


def _ranges(checked: Checked, spec: ReadSpec) -> tuple[list[Part], Checked]:
    """The rows of all files that may pass `where`; files whose tails are damaged join the lost ones."""

    def of_file(footer: Footer) -> Sequence[Part] | DataError:
        try:
            return _ranges_of_file(footer, spec)
        except DataError as error:
            if spec.on_bad == "error":
                raise
            return error

    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        found = list(zip(checked.footers, pool.map(of_file, checked.footers)))
    lost = [(footer.path, str(parts)) for footer, parts in found if isinstance(parts, DataError)]
    good = [(footer, parts) for footer, parts in found if not isinstance(parts, DataError)]
    ranges = [part for _, parts in good for part in parts]
    return ranges, Checked(tuple(footer for footer, _ in good), (*checked.lost, *lost))


def _ranges_of_file(footer: Footer, spec: ReadSpec) -> Sequence[Part]:
    if spec.where is None:
        return whole(footer.stripes)
    with open_input(footer.path) as file:
        tail = read_tail(file, footer.path)
        checksums = load(file, tail) if spec.verify_checksums else None
        try:
            parts = prune(footer, tail, spec.where)
            if checksums is not None:
                _verify_excluded(file, footer, tail, checksums, parts, spec.where)
        except DataError:
            if spec.on_bad == "error":
                raise
            return whole(footer.stripes)  # the stripe with the damaged index is found when it is its turn
    # Shuffling takes the parts of a stripe at different times, and a stripe is decoded as a whole.
    return hulls(parts) if spec.shuffled else parts


def _verify_excluded(
    file: pa.NativeFile, footer: Footer, tail: Tail, checksums: Checksums, parts: Sequence[Part], where: Where
) -> None:
    """Compares the indexes that have excluded whole stripes with their checksums: nobody else will read those. Raises
    `DataError`."""
    left = {part.stripe.index for part in parts}
    for part in prune(footer, replace(tail, row_index_stride=0), where):  # what statistics of stripes alone leave
        if part.stripe.index not in left:
            verify_stripe(file, checksums, part.stripe.index, where.columns)
