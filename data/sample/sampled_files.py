"""What a sampling does to given files: counted, or written as files of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from data.columns import Column, wrong_rows
from data.errors import DataError
from data.files import open_input
from data.format.tail import read_tail
from data.orc_writer import OrcWriter
from data.sample.sampling import OFFSET, WEIGHT, Sampled, Sampling, labels_of, meets, of_label, sample
from data.scan.raw_rows import Progress, RawRows, open_orc, raw_rows
from data.where import Where, mask

METADATA = "ps_cluster.sampling"
_PREFIX = "ps_cluster.checksums"  # of a file's own bytes: not to be copied


@dataclass
class Tally:
    """Rows by group: read and kept, int64, and the sum of the weights of the kept ones, float64; `[groups]` each."""

    read: np.ndarray
    kept: np.ndarray
    weight: np.ndarray

    @staticmethod
    def of(groups: int) -> Tally:
        """Of nothing yet."""
        return Tally(np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups))

    def add(self, group: np.ndarray, keep: np.ndarray, weight: np.ndarray) -> None:
        """Adds rows: their groups, whether they are kept, their weights (0 where not); `[rows]` each."""
        groups = len(self.read)
        self.read += np.bincount(group, minlength=groups)
        self.kept += np.bincount(group[keep], minlength=groups)
        self.weight += np.bincount(group, weights=weight, minlength=groups)


@dataclass(frozen=True)
class Counts:
    """labels: by label 0 and 1, and, last, rows with another. factors: of each factor of the sampling the rows it
    applies to, by group. skipped: rows that `where` leaves out. lost: rows with a wrong value, and all of stripes that
    cannot be decoded, where these are left out. Neither are in any tally."""

    labels: Tally
    factors: tuple[Tally, ...]
    skipped: int
    lost: int = 0


def count_sampled(
    sampling: Sampling,
    groups: Sequence[np.ndarray],
    paths: Sequence[str],
    where: Where | None = None,
    progress: Progress | None = None,
    skip_bad: Sequence[Column] | None = None,
) -> Counts:
    """Counts exactly what `sampling` keeps of the rows of `paths` that `where` takes; reads only the columns it needs.

    groups: for each factor, int64 `[places in the table of its rate]`: the group of each place, from 0.
    skip_bad: the columns that are trained on; rows in which one of them has a wrong value, and stripes in which one
    cannot be decoded, are left out, as training does with `on_bad: skip`. None: a stripe that cannot be decoded is a
    `DataError`, and wrong values are not looked for.
    """
    counter = _Counter(sampling, groups, where, skip_bad)
    trained_on = [column.name for column in skip_bad or ()]
    names = tuple(dict.fromkeys([*sampling.columns, *(where.columns if where else ()), *trained_on]))
    for stripe in raw_rows(paths, names, progress, skip_bad is not None):
        counter.add(stripe)
    return counter.counts(paths)


def write_sampled(
    sampling: Sampling,
    groups: Sequence[np.ndarray],
    paths: Sequence[str],
    folder: str,
    metadata: Mapping[str, str],
    where: Where | None = None,
    progress: Progress | None = None,
    skip_bad: Sequence[Column] | None = None,
) -> Counts:
    """Writes the kept rows of each file of `paths` as a file of its own in `folder`, all or nothing.

    A file has the columns of the one it comes from, then `sample_weight` and `sample_offset` (float); its metadata, and
    `metadata`. Its name is the old one, with a number in front when two are the same. Rows keep their order. Memory: a
    stripe. `skip_bad`: as for `count_sampled`.

    Raises `DataError` when `folder` exists and is not empty, and for a file that has columns of these names already.
    """
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise DataError(f"{folder}: expected a folder that is empty or does not exist, found another one")
    for path in paths:
        taken = {WEIGHT, OFFSET} & set(open_orc(path).schema.names)
        if taken:
            raise DataError(f"{path}: column {min(taken)}: expected no such column, as sampling adds it")
    counter = _Counter(sampling, groups, where, skip_bad)
    beside = f"{os.path.abspath(folder)}.{os.getpid()}.partial"
    os.makedirs(beside)
    try:
        done = 0
        total = sum(open_orc(path).nrows for path in paths) if progress else 0
        for path, name in zip(paths, _names(paths)):
            schema = (
                open_orc(path)
                .schema.remove_metadata()
                .append(pa.field(WEIGHT, pa.float32()))
                .append(pa.field(OFFSET, pa.float32()))
            )
            with OrcWriter(os.path.join(beside, name), schema, {**_metadata_of(path), **metadata}) as writer:
                for stripe in raw_rows([path], skip_bad=skip_bad is not None):
                    keep, sampled = counter.add(stripe)
                    kept = stripe.batch.filter(pa.array(keep))
                    columns = [*kept.columns, pa.array(sampled.weight), pa.array(sampled.offset)]
                    writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
                    done += stripe.rows
                    if progress:
                        progress(done, total)
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(folder)
        os.rename(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return counter.counts(paths)


class _Counter:
    """Samples stripe by stripe and counts."""

    def __init__(
        self,
        sampling: Sampling,
        groups: Sequence[np.ndarray],
        where: Where | None,
        skip_bad: Sequence[Column] | None,
    ):
        self._sampling = sampling
        self._groups = groups
        self._where = where
        self._trained_on = skip_bad or ()
        self._labels = Tally.of(3)
        self._factors = tuple(Tally.of(int(group.max()) + 1) for group in groups)
        self._seen = self._skipped = self._wrong = 0

    def add(self, stripe: RawRows) -> tuple[np.ndarray, Sampled]:
        """Which rows are kept, bool `[rows]`; weights and offsets of these."""
        columns = stripe.columns
        self._seen += stripe.rows
        taken = mask(self._where, columns) if self._where else np.ones(stripe.rows, bool)
        self._skipped += int((~taken).sum())
        for column in self._trained_on:
            wrong = wrong_rows(columns[column.name], column) & taken
            self._wrong += int(wrong.sum())
            taken &= ~wrong
        sampled = sample(self._sampling, columns, stripe.file_key, stripe.numbers)
        keep = sampled.keep & taken
        weight = np.zeros(stripe.rows)
        weight[sampled.keep] = sampled.weight
        weight[~keep] = 0
        labels = labels_of(columns[self._sampling.label])
        self._labels.add(np.where(labels < 0, 2, labels)[taken], keep[taken], weight[taken])
        for factor, group, tally in zip(self._sampling.factors, self._groups, self._factors):
            applies, position = meets(factor, columns, stripe.rows)
            own = applies & of_label(factor, labels) & taken
            tally.add(group[position[own]], keep[own], weight[own])
        among_kept = taken[sampled.keep]
        return keep, Sampled(keep, sampled.weight[among_kept], sampled.offset[among_kept])

    def counts(self, paths: Sequence[str]) -> Counts:
        """What came of the rows of `paths`, all of which were added unless their stripe cannot be decoded."""
        rows = sum(open_orc(path).nrows for path in paths)
        return Counts(self._labels, self._factors, self._skipped, rows - self._seen + self._wrong)


def _names(paths: Sequence[str]) -> list[str]:
    names = [os.path.basename(path) for path in paths]
    return names if len(set(names)) == len(names) else [f"{i:05}-{name}" for i, name in enumerate(names)]


def _metadata_of(path: str) -> dict[str, str]:
    with open_input(path) as file:
        found = read_tail(file, path).user_metadata
    return {
        name: value.decode(errors="replace")
        for name, value in found.items()
        if not name.startswith(_PREFIX) and name != METADATA
    }
