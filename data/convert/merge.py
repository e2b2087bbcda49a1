"""Merging runs: one training file at a time, a chunk of rows at a time.

The rows of a file are known by rank, so files are written independently of each other, in any order, by any process. A
chunk is cut out of all runs, put in order as a whole, and written: no step is per row. Chunks have the same rows and
the same form whatever the runs, so the bytes of a file depend on the rows alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.convert.hashed_ids import EMPTY_ID, HASH_NAME, MISSING_ID
from data.convert.keys import order_of
from data.convert.mapped import forget, map_array
from data.convert.ranks import Ranks, in_order
from data.convert.runs import Run, RunReader
from data.convert.schema import HASHED, SamplesSchema, arrow_schema
from data.orc_writer import OrcWriter, Settings

FORMAT_VERSION = 1
# Rows of a chunk. Less memory than for that, as for rows of 10 kB in 500 MB, gives smaller ones.
CHUNK_ROWS = 8192
CHUNK_STEP = 1024


@dataclass(frozen=True)
class FileInfo:
    """A training file, as the manifest lists it."""

    name: str
    rows: int
    bytes: int
    sha256: str
    time_min: int | None  # epoch milliseconds
    time_max: int | None
    user_min: int | None  # of the first column that rows are sorted by
    user_max: int | None


class Merge:
    """All runs of a conversion, opened for reading."""

    def __init__(self, folder: str, runs: Sequence[Run], schema: SamplesSchema, samples: np.ndarray | None):
        runs = [run for run in runs if run.rows]
        self._schema = schema
        self._arrow_schema = arrow_schema(schema)
        self._lengths = np.array([run.rows for run in runs], np.int64)
        self._readers: list[RunReader | None] = [None] * len(runs)
        self._folder, self._runs = folder, runs
        self._ranks: Ranks | None = None
        if samples is not None:
            keys = [map_array(os.path.join(folder, run.keys.name)) for run in runs if run.keys]
            self._ranks = Ranks(keys, samples)
        self.row_bytes = float(sum(run.rows * run.row_bytes for run in runs)) / max(1, int(self._lengths.sum()))

    def chunks(self, first: int, last: int, memory_bytes: int) -> Iterator[pa.Table]:
        """Rows of ranks `first` to `last` - 1 in order, in chunks of `CHUNK_ROWS`."""
        # A chunk is there several times: as cut out, in order and rebuilt.
        fitting = int(memory_bytes / 6 / max(1.0, self.row_bytes)) // CHUNK_STEP * CHUNK_STEP
        chunk = min(max(CHUNK_STEP, fitting), CHUNK_ROWS)
        cut = self._cut(first)
        for start in range(first, last, chunk):
            following = self._cut(min(start + chunk, last))
            pieces = [
                batch
                for index in np.flatnonzero(following > cut)
                for batch in self._reader(index).rows(int(cut[index]), int(following[index]))
            ]
            for index in np.flatnonzero(following == self._lengths):
                self._close(int(index))
            if self._ranks is not None:
                forget(self._ranks.keys)
            cut = following
            table = pa.Table.from_batches(pieces, self._arrow_schema).combine_chunks()
            del pieces
            if self._ranks is not None:
                table = table.take(pa.array(order_of(table, self._schema.sort_columns)))
            yield rebuilt(table)

    def _cut(self, rank: int) -> np.ndarray:
        return in_order(self._lengths, rank) if self._ranks is None else self._ranks.cut(rank)

    def _reader(self, index: int) -> RunReader:
        reader = self._readers[index]
        if reader is None:
            reader = self._readers[index] = RunReader(self._folder, self._runs[index])
        return reader

    def _close(self, index: int) -> None:
        reader, self._readers[index] = self._readers[index], None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Closes all files."""
        for index in range(len(self._readers)):
            self._close(index)


def write_file(
    path: str,
    rows: int,
    tables: Iterator[pa.Table],
    schema: SamplesSchema,
    sources: Sequence[str],
    progress: Callable[[int], None] = lambda rows: None,
) -> FileInfo:
    """Writes one training file of `rows` rows; it is there whole or not at all."""
    time, user = schema.time_column, (schema.sort_columns or (None,))[0]
    times, users = _Range(), _Range()
    settings = Settings(bloom_columns=tuple(schema.output.bloom_columns))
    with OrcWriter(path, arrow_schema(schema), file_metadata(schema, rows, sources), settings) as writer:
        for table in tables:
            writer.write(table)
            times.add(table, time)
            users.add(table, user)
            progress(table.num_rows)
    return FileInfo(os.path.basename(path), rows, os.path.getsize(path), sha256_of(path), *times.ends, *users.ends)


def file_metadata(schema: SamplesSchema, rows: int, sources: Sequence[str]) -> dict[str, str]:
    """The user metadata of a training file."""
    shown = [os.path.basename(path) for path in sources[:100]]
    return {
        "ps_cluster.format_version": str(FORMAT_VERSION),
        "ps_cluster.schema": schema.model_dump_json(),
        "ps_cluster.hash": json.dumps(hash_of(schema)),
        "ps_cluster.sort": json.dumps(list(schema.sort_columns)),
        "ps_cluster.rows": str(rows),
        "ps_cluster.sources": json.dumps({"files": len(sources), "first": shown}),
    }


def hash_of(schema: SamplesSchema) -> dict[str, object] | None:
    """How texts became ids; None where no column is hashed."""
    if not any(column.kind in HASHED for column in schema.columns):
        return None
    return {"name": HASH_NAME, "seed": schema.hash_seed, "empty_id": EMPTY_ID, "missing_id": MISSING_ID}


def sha256_of(path: str) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def info_text(info: FileInfo) -> str:
    """The info as JSON."""
    return json.dumps(asdict(info))


def rebuilt(table: pa.Table) -> pa.Table:
    """The table in a form that depends on its values alone.

    A mask without a null, or values under a null, are what is left of the runs that rows came from; they count as bytes
    where the writer decides that a stripe is full.
    """
    return pa.Table.from_arrays([_rebuilt_column(column) for column in table.columns], schema=table.schema)


def _rebuilt_column(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.nulls(0, array.type)
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if not pa.types.is_list(array.type):
        values = array.fill_null(0) if array.null_count else array
        return pa.array(values.to_numpy(), array.type, mask=mask)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(pc.list_value_length(array).fill_null(0).to_numpy(), out=offsets[1:])
    values = pa.array(array.flatten().to_numpy(), array.type.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=None if mask is None else pa.array(mask))


class _Range:
    """Least and greatest value of a column."""

    def __init__(self) -> None:
        self.ends: tuple[int | None, int | None] = (None, None)

    def add(self, table: pa.Table, name: str | None) -> None:
        if name is None or not table.num_rows:
            return
        found = pc.min_max(table.column(name)).as_py()
        low = [end for end in (self.ends[0], found["min"]) if end is not None]
        high = [end for end in (self.ends[1], found["max"]) if end is not None]
        self.ends = (min(low, default=None), max(high, default=None))
