"""How often each id occurs: counted exactly in bounded memory, kept as a file sorted from the most frequent id down.

Counting: the ids of each stripe are counted in memory and the counts appended to one of many temporary files, chosen
by a hash of the id; then each of those is summed up and sorted by itself; then they are merged. The file is an ORC file
with the columns `id` (bigint) and `count` (bigint), sorted by (count descending, id ascending), so that whoever needs
only the most frequent ids reads only its beginning. Totals are in its metadata.

Memory: one stripe's column, the counts of one part (16 bytes for each distinct id of each stripe; about `PART_BYTES`
up to 2 billion such) times three, and the merge's blocks (`_MERGE_BYTES`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from data.errors import DataError
from data.files import open_input
from data.format.tail import read_tail
from data.orc_writer import OrcWriter
from data.sample.sampling import Lookup
from data.scan.raw_rows import Progress, open_orc, raw_rows

PART_BYTES = 64 * 2**20
MOST_PARTS = 512
METADATA = "ps_cluster.popularity"
SCHEMA = pa.schema([("id", pa.int64()), ("count", pa.int64())])
_MERGE_BYTES = 64 * 2**20
_PAIR_BYTES = 16


@dataclass(frozen=True)
class Totals:
    """What a file of counts is about; also its metadata, as JSON."""

    column: str
    """Name of the column that was counted."""
    occurrences: int
    """Ids counted: rows with one, or items of all lists."""
    nulls: int
    """Rows, and items of lists, without an id; not among `occurrences`."""
    ids: int
    """Different ids."""
    format_version: int = 1


def count_ids(
    paths: Sequence[str], column: str, out: str, progress: Progress | None = None, part_bytes: int = PART_BYTES
) -> Totals:
    """Counts the ids of an integer or array-of-integers column and writes the file `out`, whole or not at all.

    Temporary files lie in a folder beside `out`: at most 32 bytes for each distinct id of each stripe.

    Raises `DataError` for a wrong file or column.
    """
    rows = 0
    for path in paths:
        file = open_orc(path)
        _check_column(path, column, file.schema)
        rows += file.nrows
    parts = min(max(-(-rows * _PAIR_BYTES // part_bytes), 1), MOST_PARTS)
    folder = tempfile.mkdtemp(prefix=f".{os.path.basename(out)}.", suffix=".partial", dir=os.path.dirname(out) or ".")
    try:
        nulls = _divide(paths, column, folder, parts, progress)
        occurrences, ids = _sum_up(folder, parts)
        totals = Totals(column, occurrences, nulls, ids)
        with OrcWriter(out, SCHEMA, {METADATA: json.dumps(asdict(totals))}) as writer:
            block_rows = max(_MERGE_BYTES // (parts * _PAIR_BYTES), 256)
            for pairs in merged([_part(folder, part) for part in range(parts)], block_rows):
                arrays = [pa.array(pairs[:, 0]), pa.array(-pairs[:, 1])]
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return totals


def totals_of(path: str) -> Totals:
    """The totals of a file of counts. Raises `DataError` when it is none."""
    schema = open_orc(path).schema
    with open_input(path) as file:
        text = read_tail(file, path).user_metadata.get(METADATA)
    if text is None or schema.names != SCHEMA.names:
        raise DataError(f"{path}: expected counts made by `ps-cluster data popularity`, found another ORC file")
    return Totals(**json.loads(text))


def most_frequent(path: str, ids: int | None = None, share: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The ids that occur most, and how often: int64 `[n]` each, in the order of the file.

    ids: so many (all, when there are fewer). share: the fewest that make up this share of all occurrences. Give one.
    Only the file's beginning is read; memory: 16 bytes for each id returned, and a stripe.
    """
    needed = None if share is None else share * totals_of(path).occurrences
    found: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    have = seen = 0
    for stripe in raw_rows([path], SCHEMA.names):
        if (ids is not None and have >= ids) or (needed is not None and seen >= needed):
            break
        some, times = (stripe.columns[name].to_numpy(zero_copy_only=False) for name in SCHEMA.names)
        take = len(some)
        if ids is not None:
            take = min(take, ids - have)
        elif needed is not None:
            take = min(take, int(np.searchsorted(seen + np.cumsum(times), needed, side="left")) + 1)
        found.append(some[:take])
        counts.append(times[:take])
        have += take
        seen += int(times[:take].sum())
    nothing = [np.zeros(0, np.int64)]
    return np.concatenate(found or nothing), np.concatenate(counts or nothing)


@dataclass(frozen=True)
class Bands:
    """Ids in bands of popularity: band i holds those of `ids` from `ends[i - 1]` to `ends[i]`; the last band the rest.

    ids: int64 `[n]`, most frequent first. ends: positions in `ids`, one less than there are bands. occurrences: of each
    band in the counted data, the last one without nulls.
    """

    column: str
    ids: np.ndarray
    ends: tuple[int, ...]
    occurrences: tuple[int, ...]

    def lookup(self, values: Sequence[float]) -> tuple[Lookup, np.ndarray]:
        """A value for each band, as a function of the id; and the band of each place in the function's `table`."""
        band = np.repeat(np.arange(len(self.ends)), np.diff([0, *self.ends]))
        order = np.argsort(self.ids)
        table = np.array(values, np.float64)
        lookup = Lookup(self.column, self.ids[order], table[band[order]], values[-1])
        return lookup, np.append(band[order], len(self.ends))


def bands(path: str, column: str, top_ids: Sequence[int] = (), top_share: Sequence[float] = ()) -> Bands:
    """Bands of the ids of `column` by the counts in `path`, the most frequent ids first.

    Args:
        top_ids: ends of the bands as ranks, ascending: `[100, 10000]` are the 100 most frequent ids, the next 9,900,
            and the rest.
        top_share: in place of `top_ids`, ends as shares of all occurrences, ascending: `[0.2, 0.8]` are the fewest ids
            that make up 20 %, the fewest that make up 80 % without those, and the rest.

    Raises `DataError` when the file is no file of counts, or of another column.
    """
    totals = totals_of(path)
    if totals.column != column:
        raise DataError(f"{path}: expected counts of column {column}, found those of {totals.column}")
    if top_share:
        ids, counts = most_frequent(path, share=top_share[-1])
        cumulated = np.cumsum(counts)
        ends = [int(np.searchsorted(cumulated, share * totals.occurrences, side="left")) + 1 for share in top_share]
        ends = [min(end, len(ids)) for end in ends]
    else:
        ids, counts = most_frequent(path, ids=top_ids[-1])
        ends = [min(end, len(ids)) for end in top_ids]
    sums = [int(counts[start:end].sum()) for start, end in zip([0, *ends], ends)]
    return Bands(column, ids, tuple(ends), (*sums, totals.occurrences - sum(sums)))


def merged(paths: Sequence[str], block_rows: int) -> Iterator[np.ndarray]:
    """The pairs of sorted files as one sorted sequence of blocks, int64 `[rows, 2]`: (id, -count), by (-count, id).

    Reads blocks of `block_rows` pairs of each file, so `16 * block_rows` bytes of each are in memory.
    """
    runs = [_Run(path, block_rows) for path in paths]
    try:
        while runs := [run for run in runs if run.fill()]:
            # All pairs up to the least of the last ones in memory: what is not in memory yet comes later.
            limit_count, limit_id = min((int(run.pairs[-1, 1]), int(run.pairs[-1, 0])) for run in runs)
            taken = []
            for run in runs:
                count, ids = run.pairs[:, 1], run.pairs[:, 0]
                low, high = np.searchsorted(count, [limit_count, limit_count + 1])
                end = int(low + np.searchsorted(ids[low:high], limit_id, side="right"))
                taken.append(run.take(end))
            block = np.concatenate(taken)
            yield block[np.lexsort((block[:, 0], block[:, 1]))]
    finally:
        for run in runs:
            run.close()


class _Run:
    """A sorted file of pairs, of which a block is in memory."""

    def __init__(self, path: str, block_rows: int):
        self._file = open(path, "rb")  # noqa: SIM115 - closed by close()
        self._block_rows = block_rows
        self.pairs = np.zeros((0, 2), np.int64)

    def fill(self) -> bool:
        """Whether there is any pair left; reads some when none is in memory."""
        if not len(self.pairs):
            data = self._file.read(self._block_rows * _PAIR_BYTES)
            self.pairs = np.frombuffer(data, np.int64).reshape(-1, 2)
            if not data:
                self.close()
        return bool(len(self.pairs))

    def take(self, count: int) -> np.ndarray:
        """The next `count` pairs in memory."""
        taken, self.pairs = self.pairs[:count], self.pairs[count:]
        return taken

    def close(self) -> None:
        self._file.close()


def _divide(paths: Sequence[str], column: str, folder: str, parts: int, progress: Progress | None) -> int:
    """Writes (id, count) of each stripe into the parts; the number of nulls."""
    nulls = 0
    with contextlib.ExitStack() as opened:
        files = [opened.enter_context(open(_part(folder, part), "wb")) for part in range(parts)]
        for stripe in raw_rows(paths, [column], progress):
            array = stripe.columns[column]
            if pa.types.is_list(array.type):
                array = array.flatten()
            nulls += array.null_count
            ids, counts = np.unique(array.drop_null().cast(pa.int64()).to_numpy(), return_counts=True)
            part_of = (_hashed(ids) % np.uint64(parts)).astype(np.int64)
            order = np.argsort(part_of, kind="stable")
            pairs = np.stack([ids[order], counts[order]], axis=1).astype(np.int64)
            ends = np.searchsorted(part_of[order], np.arange(parts + 1))
            for part, (start, end) in enumerate(zip(ends, ends[1:])):
                if end > start:
                    files[part].write(pairs[start:end].tobytes())
    return nulls


def _sum_up(folder: str, parts: int) -> tuple[int, int]:
    """Replaces each part by its distinct ids as (id, -count), sorted by (-count, id); occurrences and ids in all."""
    occurrences = distinct = 0
    for part in range(parts):
        path = _part(folder, part)
        pairs = np.fromfile(path, np.int64).reshape(-1, 2)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[:1, 0] - 1))
        ids = pairs[starts, 0]
        counts = np.add.reduceat(pairs[:, 1], starts) if len(starts) else np.zeros(0, np.int64)
        order = np.lexsort((ids, -counts))
        np.stack([ids[order], -counts[order]], axis=1).tofile(path)
        occurrences += int(counts.sum())
        distinct += len(ids)
    return occurrences, distinct


def _part(folder: str, part: int) -> str:
    return os.path.join(folder, f"part-{part:05}")


def _hashed(ids: np.ndarray) -> np.ndarray:
    """uint64 `[n]`: the upper bits of a product decide, so that ids with a stride are spread."""
    return (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)


def _check_column(path: str, column: str, schema: pa.Schema) -> None:
    place = f"{path}: column {column}: expected integers or arrays of integers"
    if schema.names.count(column) != 1:
        raise DataError(f"{place}, found no such column" if column not in schema.names else f"{place}, found several")
    kind = schema.field(column).type
    if not (pa.types.is_integer(kind) or (pa.types.is_list(kind) and pa.types.is_integer(kind.value_type))):
        raise DataError(f"{place}, found {kind}")
