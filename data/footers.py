"""What the footer of an ORC file says, checked against what was declared; no row is decoded here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.orc as orc
import pyorc

from data.columns import Column, accepts, expected_type
from data.errors import DataError
from data.files import open_input
from data.stripes import Stripe

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
        with open_input(path) as file:
            file_bytes = file.size()
            if file_bytes == 0:
                raise DataError(f"{path}: expected an ORC file, found an empty file (0 bytes)")
            magic = file.read(3)
            if magic != b"ORC":
                raise DataError(f"{path}: expected an ORC file, found one that starts with {magic!r}")
            file.seek(0)
            # pyarrow decodes and so has the last word on types, but does not tell how many rows a stripe has.
            schema = orc.ORCFile(file).schema
            stripes: list[Stripe] = []
            first_row = 0
            file.seek(0)
            for index, stripe in enumerate(pyorc.Reader(file).iter_stripes()):
                stripes.append(Stripe(path, index, first_row, len(stripe)))
                first_row += len(stripe)
    except FileNotFoundError:
        raise DataError(f"{path}: expected an ORC file, found no file by that name") from None
    except OSError as error:
        if error.errno is not None and error.strerror:
            raise DataError(f"{path}: expected a readable ORC file, found: {error.strerror}") from error
        raise _damaged(path, error) from error
    except (pa.ArrowException, pyorc.errors.ORCError) as error:
        raise _damaged(path, error) from error
    return Footer(path, file_bytes, schema, tuple(stripes))


def read_footers(paths: Sequence[str], columns: Sequence[Column]) -> list[Footer]:
    """The footers of `paths`, in that order.

    Raises `DataError` with one line for each problem of all the files: missing, empty, not ORC or truncated
    file, missing column, wrong type; or when the files hold no row at all.
    """
    footers = []
    problems = []
    for path in paths:
        try:
            footer = read_footer(path)
        except DataError as error:
            problems.append(str(error))
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
