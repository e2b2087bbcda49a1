"""The plan of a read: from files to the parts of stripes that one shard reads, and how many rows they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data.errors import DataError
from data.read.counting import Progress, count_kept
from data.read.footers import FileSummary, Footer, read_good_footers
from data.read.pruning import Pruned, prune_each
from data.read.read_spec import ReadSpec
from data.read.stripes import Part, hulls, shard_parts, slices, whole


@dataclass(frozen=True)
class Plan:
    """What a shard reads in every epoch, and what comes of it."""

    parts: tuple[Part, ...]
    """Rows of stripes, in the order of the files, each of at least one row."""
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
    file_keys: Mapping[str, int]
    """`Footer.file_key` of these files, by path."""
    pruned: Pruned | None
    """How many of the rows of these files may pass `where`, by what the files say of them; None without one."""

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
    ranges, checked, pruned = _ranges(checked, spec)
    parts = shard_parts(ranges, spec.shard, spec.num_shards)
    if spec.shuffled and spec.stripe_slices > 1:
        parts = slices(parts, spec.stripe_slices)
    kept = count_kept(spec, parts, progress) if spec.filter_columns and parts else None
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
        lost=checked.lost,
        files=checked.summary,
        file_keys={footer.path: footer.file_key for footer in checked.footers},
        pruned=pruned,
    )


def stream_batches(rows: int, spec: ReadSpec) -> int:
    """Batches of the stream of `spec` when an epoch gives `rows` rows."""

    def batches(count: int) -> int:
        return count // spec.batch_rows if spec.drop_remainder else -(-count // spec.batch_rows)

    epochs_left = spec.epochs - spec.start.epoch
    if epochs_left == 0:
        return 0
    return batches(max(rows - spec.start.row, 0)) + (epochs_left - 1) * batches(rows)


def _ranges(checked: Checked, spec: ReadSpec) -> tuple[list[Part], Checked, Pruned | None]:
    """The rows of all files that may pass `where`; files whose tails are damaged join the lost ones."""
    if spec.where is None:
        return [part for footer in checked.footers for part in whole(footer.stripes)], checked, None
    skip = spec.on_bad == "skip"
    ranges: list[Part] = []
    good, lost, total = [], list(checked.lost), Pruned()
    for footer, found in zip(
        checked.footers, prune_each(checked.footers, spec.where, spec.verify_checksums, keep_damaged=skip)
    ):
        if isinstance(found, DataError):
            if not skip:
                raise found
            lost.append((footer.path, str(found)))
            continue
        parts, pruned = found
        # Shuffling takes the parts of a stripe at different times, and a stripe is decoded as a whole.
        ranges += hulls(parts) if spec.shuffled else parts
        good.append(footer)
        total += pruned
    return ranges, Checked(tuple(good), tuple(lost)), total
