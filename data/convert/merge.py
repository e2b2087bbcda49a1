"""Merging runs: one training file at a time, a chunk of rows at a time.

The rows of a file are known by rank, so files are written independently of each other, in any order, by any process. A
chunk is cut out of all runs, put in order as a whole, and written: no step is per row. Chunks are multiples of what the
encoder takes at once whatever the memory, so the bytes of a file depend on the rows alone.
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
from data.convert.ranks import Ranks, in_order
from data.convert.runs import Run, RunReader
from data.convert.schema import HASHED, SamplesSchema, arrow_schema
from data.orc_writer import OrcWriter, Settings

FORMAT_VERSION = 1
# Chunks are multiples of this, which is what pyarrow's encoder takes at once.
CHUNK_STEP = 1024
_MOST_CHUNK_ROWS = 64 * CHUNK_STEP


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
            keys = [np.load(os.path.join(folder, run.keys.name), mmap_mode="r") for run in runs if run.keys]
            self._ranks = Ranks(keys, samples)
        self.row_bytes = float(sum(run.rows * run.row_bytes for run in runs)) / max(1, int(self._lengths.sum()))

    def chunks(self, first: int, last: int, memory_bytes: int) -> Iterator[pa.Table]:
        """Rows of ranks `first` to `last` - 1 in order, in chunks of a fixed multiple of rows."""
        # A chunk is there twice: as cut out and in order.
        steps = int(memory_bytes / 4 / max(1.0, self.row_bytes) / CHUNK_STEP)
        chunk = min(max(1, steps) * CHUNK_STEP, _MOST_CHUNK_ROWS)
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
            cut = following
            table = pa.Table.from_batches(pieces, self._arrow_schema).combine_chunks()
            del pieces
            if self._ranks is not None:
                table = table.take(pa.array(order_of(table, self._schema.sort_columns)))
            yield table

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
