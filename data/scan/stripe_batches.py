"""All rows of some files, a stripe at a time, in order: for tools that look at every value as it was written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing

import pyarrow as pa
from pyarrow import orc

from data.errors import DataError
from data.files import open_input
from data.format import checksums
from data.format.tail import read_tail
from data.read.stripes import Stripe

Progress = Callable[[int, int], None]
"""Told (rows done, rows in all)."""


def stripe_batches(
    paths: Sequence[str],
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
    total_rows: int = 0,
) -> Generator[tuple[Stripe, pa.RecordBatch], None, None]:
    """Each stripe and its rows. `columns` (default: all) that a file lacks are left out; they come in its order.

    One stripe is decoded ahead by a thread, so two are in memory. Carried checksums are compared. Raises `DataError`
    naming file and stripe.
    """
    source = _decoded(paths, columns)

    def advance() -> tuple[Stripe, pa.RecordBatch] | None:
        return next(source, None)

    done = 0
    # The thread runs `source`, which is closed once the thread has ended: also where the interpreter is about to end
    # and lets no thread begin anything.
    with closing(source), ThreadPoolExecutor(1, "decode") as pool:
        ahead: Future[tuple[Stripe, pa.RecordBatch] | None] = pool.submit(advance)
        while (found := ahead.result()) is not None:
            ahead = pool.submit(advance)
            yield found
            done += found[0].rows
            if progress:
                progress(done, total_rows)


def _decoded(
    paths: Sequence[str], columns: Sequence[str] | None
) -> Generator[tuple[Stripe, pa.RecordBatch], None, None]:
    for path in paths:
        stripe: Stripe | None = None
        try:
            with open_input(path) as file:
                tail = read_tail(file, path)
                carried = checksums.load(file, tail)
                reader = orc.ORCFile(file)
                names = [name for name in reader.schema.names if columns is None or name in columns]
                first_row = 0
                for index, info in enumerate(tail.stripes):
                    stripe = Stripe(path, index, first_row, info.rows)
                    first_row += info.rows
                    if carried is not None:
                        checksums.verify_stripe(file, carried, index, None if columns is None else names)
                    yield stripe, reader.read_stripe(index, names)
        except FileNotFoundError:
            raise DataError(f"{path}: expected an ORC file, found no file by that name") from None
        except (OSError, pa.ArrowException) as error:
            place = path if stripe is None else f"{path}: stripe {stripe.index}"
            raise DataError(f"{place}: expected readable ORC data, found: {_line(error)}") from error


def _line(error: BaseException) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror or str(error).split("\n", 1)[0]
