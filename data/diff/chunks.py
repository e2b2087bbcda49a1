"""Two sets of rows cut into chunks, so that rows of equal key are in chunks that belong together.

Where both sets are sorted by the key they are merged; else their rows go to temporary files by the hash of their key.
The files have no name: nothing is left behind, however the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa

from data.inspect.sort_order import Keys, sort_keys
from data.scan.value_codes import codes, combined

PART_BYTES = 32 << 20
_MOST_PARTS = 128


class Chunk(NamedTuple):
    """Some rows of a set."""

    rows: pa.Table
    numbers: np.ndarray
    """int64 `[rows]`: number of each row in its set, from 0."""


def merged(a: Iterable[Chunk], b: Iterable[Chunk], key: Sequence[str]) -> Iterator[tuple[Chunk, Chunk]]:
    """Chunks of two sets that are both sorted by `key`, ascending, nulls first.

    Holds of each set at most two of its chunks and the rows of one key.
    """
    one, other = _Side(a, key), _Side(b, key)
    while not (one.ended and other.ended):
        limit = min(side.last for side in (one, other) if not side.ended)
        taken, also_taken = one.take_below(limit), other.take_below(limit)
        if len(taken.numbers) or len(also_taken.numbers):
            yield taken, also_taken
        for side in (one, other):
            if not side.ended and side.last == limit:
                side.read()
    yield one.rest, other.rest


class _Side:
    """One set on its way; `rest` are the rows that were read and not yet taken."""

    def __init__(self, chunks: Iterable[Chunk], key: Sequence[str]):
        self._chunks = iter(chunks)
        self._key = key
        self.ended = False
        self.rest = next(self._chunks)
        self.last: list[tuple[bool, float]] = []
        self._keys: list[Keys] = []
        self._look()
        while not self.ended and not len(self.rest.numbers):
            self.read()

    def read(self) -> None:
        found = next(self._chunks, None)
        if found is None:
            self.ended = True
            return
        rows = pa.concat_tables([self.rest.rows, found.rows]).combine_chunks()
        self.rest = Chunk(rows, np.concatenate([self.rest.numbers, found.numbers]))
        self._look()

    def take_below(self, limit: list[tuple[bool, float]]) -> Chunk:
        """Removes and returns the rows whose key is less than `limit`."""
        less, equal = np.zeros(len(self.rest.numbers), bool), np.ones(len(self.rest.numbers), bool)
        for (valid, values), (limit_valid, limit_value) in zip(self._keys, limit):
            if limit_valid:
                less |= equal & (~valid | (values < limit_value))
                equal &= valid & (values == limit_value)
            else:
                equal &= ~valid
        count = int(np.count_nonzero(less))
        taken = Chunk(self.rest.rows.slice(0, count), self.rest.numbers[:count])
        self.rest = Chunk(self.rest.rows.slice(count), self.rest.numbers[count:])
        self._keys = [(valid[count:], values[count:]) for valid, values in self._keys]
        return taken

    def _look(self) -> None:
        self._keys = [sort_keys(_one_array(self.rest.rows[name])) for name in self._key]
        if len(self.rest.numbers):
            self.last = [(bool(valid[-1]), values[-1].item() if valid[-1] else 0) for valid, values in self._keys]


def partitioned(
    a: Iterable[Chunk], b: Iterable[Chunk], key: Sequence[str], most_rows: int
) -> Iterator[tuple[Chunk, Chunk]]:
    """Chunks of two sets in any order, of which the larger has `most_rows` rows.

    Each has about `PART_BYTES` in memory; more, when one key has more rows than that, or a set has more than
    128 such parts.
    """
    with ExitStack() as stack:
        rest = iter(a)
        first = [next(rest)]
        while not len(first[-1].numbers) and (found := next(rest, None)) is not None:
            first.append(found)
        row_bytes = first[-1].rows.nbytes / max(len(first[-1].numbers), 1) + 8
        count = min(max(-(-int(row_bytes * most_rows) // PART_BYTES), 1), _MOST_PARTS)
        if count == 1:
            yield _joined([*first, *rest]), _joined(list(b))
            return
        parts_a = _write(stack, chain(first, rest), key, count)
        parts_b = _write(stack, b, key, count)
        for one, other in zip(parts_a, parts_b):
            yield _read(one), _read(other)


def _write(stack: ExitStack, chunks: Iterable[Chunk], key: Sequence[str], count: int) -> list[IO[bytes]]:
    """A file for each part, in Arrow's stream format, with the rows' numbers as last column."""
    files: list[IO[bytes]] = []
    writers: list[pa.RecordBatchStreamWriter] = []
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for piece in _gathered(chunks):
        table = piece.rows.append_column("", pa.array(piece.numbers))
        if not writers:
            for _ in range(count):
                files.append(stack.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115
                writers.append(pa.ipc.new_stream(files[-1], table.schema, options=options))
        hashes = combined([codes(_one_array(piece.rows[name])) for name in key])
        part = (hashes >> np.uint64(40)).astype(np.int64) % count
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(1, count + 1))
        table = table.take(pa.array(order))
        start = 0
        for writer, end in zip(writers, ends.tolist()):
            if end > start:
                writer.write_table(table.slice(start, end - start))
            start = end
    for writer in writers:
        writer.close()
    return files


def _read(file: IO[bytes]) -> Chunk:
    file.seek(0)
    table = pa.ipc.open_stream(file).read_all().combine_chunks()
    file.close()
    numbers = _one_array(table.column(table.num_columns - 1)).to_numpy()
    return Chunk(table.select(range(table.num_columns - 1)), numbers)


def _gathered(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Fewer, larger chunks: each is written to all parts, and tiny pieces would cost more than their rows."""
    waiting: list[Chunk] = []
    waiting_bytes = 0
    for chunk in chunks:
        waiting.append(chunk)
        waiting_bytes += chunk.rows.nbytes
        if waiting_bytes >= PART_BYTES:
            yield _joined(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    rows = pa.concat_tables([chunk.rows for chunk in chunks]).combine_chunks()
    return Chunk(rows, np.concatenate([chunk.numbers for chunk in chunks]))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
