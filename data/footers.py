"""What the footer of an ORC file says, checked against what was declared; no row is decoded here."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.orc as orc

from data.columns import Column, accepts, expected_type
from data.errors import DataError
from data.files import is_remote, keep_end, open_input
from data.orc_tail import read_tail
from data.stripes import Stripe

# Files wait for a network or a disk; more threads would not parse faster.
_READ_AT_ONCE = 8
# Enough for the tail of most files: one request instead of one for each piece of it.
_KEPT_BYTES = 1 << 18
_SHOWN_PROBLEMS = 20
_SHOWN_COLUMNS = 12


@dataclass(frozen=True)
class Footer:
    """Schema and stripes of one file."""

    path: str
    file_bytes: int
    schema: pa.Schema
    stripes: tuple[Stripe, ...]


@dataclass(frozen=True)
class FileSummary:
    """Totals over a set of files."""

    files: int
    rows: int
    file_bytes: int
    stripes: int


def read_footer(path: str) -> Footer:
    """The footer of the ORC file `path`. Raises `DataError` when there is none to read."""
    try:
        with open_input(path) as opened:
            file = keep_end(opened, _KEPT_BYTES) if is_remote(path) else opened
            tail = read_tail(file, path)
            # pyarrow decodes and so has the last word on types.
            schema = orc.ORCFile(file).schema
    except FileNotFoundError:
        raise DataError(f"{path}: expected an ORC file, found no file by that name") from None
    except OSError as error:
        if error.errno is not None and error.strerror:
            raise DataError(f"{path}: expected a readable ORC file, found: {error.strerror}") from error
        raise _damaged(path, error) from error
    except pa.ArrowException as error:
        raise _damaged(path, error) from error
    first_rows = itertools.accumulate((stripe.rows for stripe in tail.stripes), initial=0)
    stripes = [Stripe(path, i, first, stripe.rows) for i, (first, stripe) in enumerate(zip(first_rows, tail.stripes))]
    return Footer(path, tail.file_bytes, schema, tuple(stripes))


def read_each(paths: Sequence[str]) -> list[Footer | DataError]:
    """The footer of each of `paths`, or what is wrong with it; several files are read at once.

    Their statistics are not kept: with those, the footers of thousands of files would fill the memory.
    """

    def read(path: str) -> Footer | DataError:
        try:
            return read_footer(path)
        except DataError as error:
            return error

    if len(paths) < 2:
        return [read(path) for path in paths]
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        return list(pool.map(read, paths))


def read_footers(paths: Sequence[str], columns: Sequence[Column]) -> list[Footer]:
    """The footers of `paths`, in that order.

    Raises `DataError` with one line for each problem of all the files: missing, empty, not ORC or truncated
    file, missing column, wrong type; or when the files hold no row at all.
    """
    footers = []
    problems = []
    for footer in read_each(paths):
        if isinstance(footer, DataError):
            problems.append(str(footer))
            continue
        footers.append(footer)
        problems += _column_problems(footer, columns)
    if not problems and not any(footer.stripes for footer in footers):
        problems.append(f"{', '.join(paths) or 'no file'}: expected at least one row, found none")
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        shown = problems[:_SHOWN_PROBLEMS] + ([f"and {more} more problems"] if more > 0 else [])
        raise DataError("\n".join(shown))
    return footers


def check_files(paths: Sequence[str], columns: Sequence[Column]) -> FileSummary:
    """Totals of `paths`, after checking their footers as `read_footers` does."""
    footers = read_footers(paths, columns)
    return FileSummary(
        files=len(footers),
        rows=sum(stripe.rows for footer in footers for stripe in footer.stripes),
        file_bytes=sum(footer.file_bytes for footer in footers),
        stripes=sum(len(footer.stripes) for footer in footers),
    )


def _damaged(path: str, error: Exception) -> DataError:
    return DataError(f"{path}: expected an ORC file, found a truncated or damaged one ({error})")


def _column_problems(footer: Footer, columns: Sequence[Column]) -> list[str]:
    problems = []
    names = footer.schema.names
    for column in columns:
        where = f"{footer.path}: column {column.name}"
        count = names.count(column.name)
        if count == 0:
            near = difflib.get_close_matches(column.name, names, n=1)
            has = ", ".join(names[:_SHOWN_COLUMNS]) + (", …" if len(names) > _SHOWN_COLUMNS else "")
            problems.append(
                f"{where}: expected {expected_type(column)}, found no such column; "
                + (f"did you mean {near[0]}?" if near else f"the file has: {has or 'none'}")
            )
        elif count > 1:
            problems.append(f"{where}: expected one column of that name, found {count}")
        elif not accepts(column, footer.schema.field(column.name).type):
            found = footer.schema.field(column.name).type
            problems.append(f"{where}: expected {expected_type(column)}, found {found}")
    return problems
