"""A pass over some columns of ORC files as they are stored: stripe by stripe, nothing filtered, nothing converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import orc

from data.errors import DataError
from data.files import open_input
from data.format.checksums import load as load_checksums
from data.format.checksums import verify_stripe
from data.format.tail import read_tail

Progress = Callable[[int, int], None]
"""Told (rows done, rows in all)."""


@dataclass(frozen=True)
class RawRows:
    """The rows of one stripe: columns by name, `[rows]` each."""

    path: str
    file_key: int
    """As of `data.format.tail.Tail`."""
    first_row: int
    """Number in the file of the first row."""
    batch: pa.RecordBatch

    @property
    def rows(self) -> int:
        return self.batch.num_rows

    @property
    def numbers(self) -> np.ndarray:
        """Row numbers in the file: int64 `[rows]`."""
        return np.arange(self.first_row, self.first_row + self.rows, dtype=np.int64)

    @property
    def columns(self) -> dict[str, pa.Array]:
        return dict(zip(self.batch.schema.names, self.batch.columns))


def raw_rows(
    paths: Sequence[str],
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    skip_bad: bool = False,
) -> Iterator[RawRows]:
    """The stripes of `paths` in order, with the columns `names` (None: all); one stripe is in memory at a time.

    Raises `DataError` for a file that cannot be read, for a stripe that cannot be decoded or whose checksum is wrong
    (with `skip_bad` it is left out), and for a column that is not there.
    """
    total = sum(open_orc(path).nrows for path in paths) if progress else 0
    done = 0
    for path in paths:
        file = open_orc(path)
        missing = [name for name in names or () if file.schema.names.count(name) != 1]
        if missing:
            raise DataError(f"{path}: column {missing[0]}: expected one column of that name, found none or several")
        with open_input(path) as raw:
            tail = read_tail(raw, path)
            checksums = load_checksums(raw, tail)
            first_row = 0
            for index, stripe in enumerate(tail.stripes):
                batch = None
                try:
                    if checksums is not None:
                        verify_stripe(raw, checksums, index, names)
                    batch = _decoded(file, path, index, names)
                except DataError:
                    if not skip_bad:
                        raise
                if batch is not None:
                    yield RawRows(path, tail.file_key, first_row, batch)
                first_row += stripe.rows
                done += stripe.rows
                if progress:
                    progress(done, total)


def _decoded(file: orc.ORCFile, path: str, index: int, names: Sequence[str] | None) -> pa.RecordBatch:
    try:
        batch = file.read_stripe(index, columns=None if names is None else list(names))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}, stripe {index}: expected rows, found a damaged stripe ({error})") from error
    if names is None:
        return batch
    # They come in the file's order.
    return pa.RecordBatch.from_arrays([batch.column(name) for name in names], names=list(names))


def open_orc(path: str) -> orc.ORCFile:
    """The file as pyarrow reads it. Raises `DataError` when there is none to read."""
    try:
        file = open_input(path)
        read_tail(file, path)  # tells better than pyarrow what is wrong
        found = orc.ORCFile(file)
        found.schema  # noqa: B018 - raises for types that pyarrow does not know
        return found
    except FileNotFoundError:
        raise DataError(f"{path}: expected an ORC file, found no file by that name") from None
    except OSError as error:
        if error.errno is not None and error.strerror:
            raise DataError(f"{path}: expected a readable ORC file, found: {error.strerror}") from error
        raise DataError(f"{path}: expected an ORC file, found a truncated or damaged one ({error})") from error
    except pa.ArrowException as error:
        raise DataError(f"{path}: expected an ORC file, found a truncated or damaged one ({error})") from error
