"""One pass over a job's samples in constant memory: how the ids of each table are spread, rows, days, bytes."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from data.read.part_reader import PartReader
from data.read.plan import check
from data.read.stripes import whole
from ps_cluster.errors import UserError
from ps_cluster.job.resolve import JobFile, column_of, table_name, tables_of, time_column
from ps_cluster.job.samples import read_spec
from ps_cluster.job.sampling import DAY_UNITS, sampling_of
from ps_cluster.job.schema import DenseFeature
from ps_cluster.plan.calendar import CalendarColumn, Cycle
from ps_cluster.plan.curve import Growth, all_of
from ps_cluster.plan.sampled_ids import Mixing, SampledIds

MOST_IDS = 2**21
"""Ids kept over all tables, about 40 bytes each; a table's share is at least `_LEAST_IDS`."""
_LEAST_IDS = 2**15
_HOT_STRIPES = 8
_HOT = 20

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ScannedTable:
    """What the samples say of a table.

    occurrences_per_row: ids looked up for a row. different: seen in the pass. ids_in_a_batch: expected different ids in
    a worker's batch. relative_error: of the numbers of ids, in 95 of 100 cases. hot: the most frequent ids with their
    shares of the occurrences. cycle: the part of the calendar that all ids are, else None.
    """

    occurrences: int
    occurrences_per_row: float
    different: float
    ids_in_a_batch: float
    relative_error: float
    growth: Growth
    hot: tuple[tuple[int, float], ...]
    cycle: Cycle | None = None


@dataclass(frozen=True)
class Scan:
    """rows: read in the pass, those that training would take. total_rows: that the footers of all files speak of.
    rows_per_day: by `data.time`; None without it. stored_row_bytes: in the files. row_bytes: of a decoded row.
    elements: mean length of each list feature.
    """

    files: int
    rows: int
    total_rows: int
    stripe_rows: float
    rows_per_day: float | None
    stored_row_bytes: float
    row_bytes: float
    elements: Mapping[str, float]
    tables: Mapping[str, ScannedTable]


def scan(job_file: JobFile, paths: Sequence[str], share: float = 1.0, progress: Progress | None = None) -> Scan:
    """Reads the first `share` of the rows of `paths`, as training would take them (`where`, sampling, `max_length`).

    Raises UserError and DataError for samples that do not fit the job.
    """
    job = job_file.job
    spec = read_spec(job, tuple(paths), training=True)
    checked = check(spec)
    resolved = sampling_of(job_file, tuple(footer.path for footer in checked.footers))
    features = [feature for feature in job.features if not isinstance(feature, DenseFeature)]
    columns = [column_of(feature) for feature in features]
    if job.data.time is not None:
        columns.append(time_column(job.data.time))
    spec = replace(
        spec,
        columns=tuple(dict.fromkeys(columns)),
        sampling=getattr(resolved, "sampling", None),
        shuffle_rows=job.data.shuffle_rows,
    )
    parts = [part for footer in checked.footers for part in whole(footer.stripes)]
    total = sum(part.rows for part in parts)
    if not total:
        raise UserError(f"{', '.join(paths)}: expected rows, found none")
    ends = list(itertools.accumulate(part.rows for part in parts))
    parts = parts[: bisect.bisect_left(ends, total * share) + 1]
    wanted = sum(part.rows for part in parts)
    mixing = Mixing(job.training.batch_size, job.data.shuffle_rows, job.data.stripe_slices, wanted)
    names = list(tables_of(job))
    limit = max(MOST_IDS // max(len(names), 1), _LEAST_IDS)
    seen = {name: SampledIds(limit, mixing) for name in names}
    by_table = {name: [feature for feature in features if table_name(feature) == name] for name in names}
    lengths = dict.fromkeys((feature.name for feature in features if feature.kind == "id_list"), 0)
    calendars = {name: CalendarColumn() for name, uses in by_table.items() if job.data.time and len(uses) == 1}
    reader = PartReader(spec)
    read = kept = decoded_bytes = 0
    times: list[int] = []
    for number, part in enumerate(parts):
        (found,) = reader.read([part])
        read += part.rows
        rows = found.rows
        kept += rows.num_rows
        decoded_bytes += rows.nbytes
        values = {name: _ids(rows.column(name)) for name in {column_of(feature).name for feature in features}}
        for name, uses in by_table.items():
            ids, places = zip(*(values[column_of(feature).name] for feature in uses)) if uses else ((), ())
            if uses:
                leads = np.repeat([feature.kind == "id" for feature in uses], [len(some) for some in ids])
                seen[name].add(
                    np.concatenate(ids), np.concatenate(places), leads, rows.num_rows, number % _HOT_STRIPES == 0
                )
        for name in lengths:
            feature = next(one for one in features if one.name == name)
            lengths[name] += len(values[column_of(feature).name][0])
        if job.data.time is not None and rows.num_rows:
            column = rows.column(job.data.time.column).to_numpy(zero_copy_only=False)
            times += [int(column.min()), int(column.max())]
            seconds = (column * (86_400 / DAY_UNITS[job.data.time.unit])).astype(np.int64)
            for name, calendar in calendars.items():
                some, where = values[column_of(by_table[name][0]).name]
                calendar.add(some, seconds[where])
        if progress:
            progress(read, wanted)
    if not kept:
        raise UserError(f"{', '.join(paths)}: expected rows that training keeps, found none among {read:,}")
    rows_per_day = None
    if job.data.time is not None and times:
        days = (max(times) - min(times)) / DAY_UNITS[job.data.time.unit]
        rows_per_day = kept / days if days > 0 else None
    dense = sum(isinstance(feature, DenseFeature) for feature in job.features)

    def told(name: str) -> ScannedTable:
        return _table(seen[name], calendars.get(name), kept, job.training.batch_size, whole_log=wanted == total)

    # A forecast is seconds of a core, and NumPy lets other threads go on meanwhile.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        of_tables = dict(zip(names, threads.map(told, names)))
    return Scan(
        files=checked.summary.files,
        rows=kept,
        total_rows=round(total * kept / read),
        stripe_rows=read / len(parts),
        rows_per_day=rows_per_day,
        stored_row_bytes=checked.summary.file_bytes / total,
        row_bytes=decoded_bytes / kept + 4 * (1 + dense),
        elements={name: count / kept for name, count in lengths.items()},
        tables=of_tables,
    )


def _ids(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The ids of a canonical column, and the row of each."""
    if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
        ids = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return ids, np.arange(len(ids))
    offsets = array.offsets.to_numpy()
    ids = array.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return ids, np.repeat(np.arange(len(array)), np.diff(offsets))


def _table(
    seen: SampledIds, calendar: CalendarColumn | None, rows: int, batch_rows: int, whole_log: bool
) -> ScannedTable:
    growth = seen.growth()
    cycle = calendar.cycle() if calendar else None
    if cycle is not None:
        growth = all_of(cycle.values, growth.occurrences)
    per_row = seen.occurrences / rows
    in_a_batch = seen.in_a_batch()
    if not whole_log:
        # Rows that lie together share ids, and shuffling mixes them only in part: what that costs is told by the rows
        # that were read; what a mixed batch of the whole log holds, by how often ids came.
        in_a_batch = seen.mixed_growth().at(batch_rows * per_row) * in_a_batch / max(seen.in_a_mixed_batch(), 1.0)
    return ScannedTable(
        occurrences=seen.occurrences,
        occurrences_per_row=per_row,
        different=seen.different,
        ids_in_a_batch=in_a_batch,
        relative_error=seen.relative_error,
        growth=growth,
        hot=tuple(itertools.islice(seen.hot(_HOT), _HOT)),
        cycle=cycle,
    )
