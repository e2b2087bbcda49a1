"""Runs: converted, sorted pieces of the sources on disk, from which the training files are merged.

A run is a few files and a JSON file that names them with their sizes and checksums; it counts once that is there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa

from data.convert.collisions import Pairs
from data.convert.keys import keys_of, order_of
from data.convert.ranks import SAMPLE_STEP
from data.convert.rows import Converted

# Decoded bytes of a run's batch: a merge holds one batch of each run.
BATCH_BYTES = 128 << 10
_LEAST_BATCH_ROWS, _MOST_BATCH_ROWS = 16, 4096


@dataclass(frozen=True)
class CheckedFile:
    """A file of a run."""

    name: str
    bytes: int
    crc32: int


@dataclass(frozen=True)
class Run:
    """Rows `start` to `end` - 1 of a unit's source, converted."""

    unit: int
    start: int
    end: int
    last: bool  # the unit is done
    rows: int
    row_bytes: float  # decoded, average
    batch_rows: int
    data: CheckedFile | None = None  # Arrow IPC file
    keys: CheckedFile | None = None  # npy
    pairs: dict[str, CheckedFile] = field(default_factory=dict)  # npy, by hashed column
    bad: dict[str, int] = field(default_factory=dict)  # rows by reason
    damage: str | None = None  # why the rest of the source could not be read
    nulls: dict[str, int] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)

    @property
    def files(self) -> list[CheckedFile]:
        """All files of the run."""
        return [file for file in (self.data, self.keys, *self.pairs.values()) if file is not None]


class RunBuilder:
    """Gathers converted rows of one unit and writes a run whenever `run_bytes` of them are there."""

    def __init__(self, folder: str, unit: int, start: int, sort: tuple[str, ...], schema: pa.Schema, run_bytes: int):
        self._folder = folder
        self._unit, self._start = unit, start
        self._sort = sort
        self._schema = schema
        self._run_bytes = run_bytes
        self._clear()

    def _clear(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._pairs: dict[str, Pairs] = {}
        self._bad: Counter[str] = Counter()
        self._nulls: Counter[str] = Counter()
        self._moved: Counter[str] = Counter()

    def add_bad(self, reasons: Iterable[str]) -> None:
        """Counts rows that were left out."""
        self._bad.update(reasons)

    def add(self, converted: Converted, end: int) -> Run | None:
        """Takes in rows; `end`: the row of the source after them. A run, when one was written."""
        if converted.batch.num_rows:
            self._batches.append(converted.batch)
            self._bytes += converted.batch.nbytes
        self._nulls.update({name: count for name, count in converted.nulls.items() if count})
        for name, hashes in converted.hashes.items():
            self._pairs.setdefault(name, Pairs()).add(hashes)
            if hashes.moved:
                self._moved[name] += hashes.moved
        if self._bytes + sum(pairs.bytes for pairs in self._pairs.values()) < self._run_bytes:
            return None
        return self.flush(end, last=False)

    def flush(self, end: int, last: bool, damage: str | None = None) -> Run:
        """Writes what is there as a run."""
        name = f"{self._unit:06d}-{self._start:012d}-{uuid.uuid4().hex[:8]}"
        table = pa.Table.from_batches(self._batches, self._schema).combine_chunks()
        self._batches = []
        row_bytes = self._bytes / max(1, table.num_rows)
        batch_rows = int(min(_MOST_BATCH_ROWS, max(_LEAST_BATCH_ROWS, BATCH_BYTES / max(1.0, row_bytes))))
        data = keys = None
        if table.num_rows:
            order = order_of(table, self._sort) if self._sort else None
            data = self._file(f"{name}.arrow", lambda path: _write_batches(path, table, order, batch_rows))
            if order is not None:
                sorted_keys = keys_of(table.select(list(dict.fromkeys(self._sort))), self._sort)[order]
                keys = self._file(f"{name}.keys.npy", lambda path: np.save(path, sorted_keys))
        pairs = {}
        for index, (column, gathered) in enumerate(self._pairs.items()):
            taken = gathered.take()
            pairs[column] = self._file(f"{name}.{index}.pairs.npy", lambda path, taken=taken: np.save(path, taken))  # type: ignore[misc]
        run = Run(
            self._unit,
            self._start,
            end,
            last,
            table.num_rows,
            row_bytes,
            batch_rows,
            data,
            keys,
            pairs,
            dict(self._bad),
            damage,
            dict(self._nulls),
            dict(self._moved),
        )
        write_whole(os.path.join(self._folder, f"{name}.json"), json.dumps(asdict(run)))
        self._start = end
        self._clear()
        return run

    def _file(self, name: str, write: Callable[[str], None]) -> CheckedFile:
        path = os.path.join(self._folder, name)
        with naming(path):
            write(path)
        return CheckedFile(name, os.path.getsize(path), crc32_of(path))


def load_runs(folder: str, first_rows: Sequence[int]) -> list[list[Run]]:
    """For each unit the runs that follow each other without a gap from its first row on, their files checked.

    All other files in the folder are removed: what a killed process left half done.
    """
    found: list[list[tuple[Run, str]]] = [[] for _ in first_rows]
    for name in sorted(os.listdir(folder)):
        run = _load(os.path.join(folder, name)) if name.endswith(".json") else None
        if run is not None and all(_is_whole(folder, file) for file in run.files):
            found[run.unit].append((run, name))
    kept: set[str] = set()
    chains: list[list[Run]] = []
    for first_row, runs in zip(first_rows, found):
        chain: list[Run] = []
        for run, name in sorted(runs, key=lambda item: item[0].start):
            if run.start == (chain[-1].end if chain else first_row) and not (chain and chain[-1].last):
                chain.append(run)
                kept.update(file.name for file in run.files)
                kept.add(name)
        chains.append(chain)
    for name in os.listdir(folder):
        if name not in kept:
            os.unlink(os.path.join(folder, name))
    return chains


def _load(path: str) -> Run | None:
    try:
        with open(path) as file:
            values = json.load(file)
        for name in ("data", "keys"):
            values[name] = CheckedFile(**values[name]) if values[name] else None
        values["pairs"] = {name: CheckedFile(**pairs) for name, pairs in values["pairs"].items()}
        return Run(**values)
    except (ValueError, KeyError, TypeError):
        return None


def _is_whole(folder: str, file: CheckedFile) -> bool:
    path = os.path.join(folder, file.name)
    return os.path.exists(path) and os.path.getsize(path) == file.bytes and crc32_of(path) == file.crc32


class RunReader:
    """A run's rows from any row on, one batch in memory."""

    def __init__(self, folder: str, run: Run):
        assert run.data is not None
        self._run = run
        self._file = pa.OSFile(os.fsencode(os.path.join(folder, run.data.name)))
        self._reader = pa.ipc.open_file(self._file)
        self._number = -1
        self._batch: pa.RecordBatch | None = None

    def rows(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Rows `first` to `last` - 1."""
        size = self._run.batch_rows
        while first < last:
            number = first // size
            if number != self._number:
                self._number, self._batch = number, self._reader.get_batch(number)
            assert self._batch is not None
            stop = min(last, (number + 1) * size)
            yield self._batch.slice(first - number * size, stop - first)
            first = stop

    def close(self) -> None:
        """Closes the file."""
        self._batch = None
        self._file.close()


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of writing to `path` name it and tell why, as the system does; not every library's do."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.ENOSPC  # NumPy tells only that less was written than asked for
        raise OSError(number, os.strerror(number), error.filename or path) from error


def sampled_keys(keys: list[np.ndarray]) -> np.ndarray:
    """Every `SAMPLE_STEP`th key of every run, sorted."""
    return np.sort(np.concatenate([array[::SAMPLE_STEP] for array in keys]))


def crc32_of(path: str) -> int:
    """CRC-32 of a file."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def write_whole(path: str, text: str, sync: bool = False) -> None:
    """Writes a text file that is whole or absent when processes are killed; with `sync`, also when the machine is."""
    beside = f"{path}.{uuid.uuid4().hex[:8]}.partial"
    with naming(path):
        with open(beside, "w") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)


def _write_batches(path: str, table: pa.Table, order: np.ndarray | None, batch_rows: int) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(os.fsencode(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        for first in range(0, table.num_rows, batch_rows):
            if order is None:
                part = table.slice(first, batch_rows)
            else:
                part = table.take(pa.array(order[first : first + batch_rows]))
            for batch in part.combine_chunks().to_batches():
                writer.write_batch(batch)
