"""What the footer of an ORC file says, checked against what was declared; no row is decoded here."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.orc as orc

from data import where
from data.columns import Column, accepts, expected_type
from data.errors import DataError
from data.files import is_remote, keep_end, open_input
from data.format.checksums import check_named
from data.format.tail import read_tail
from data.read.read_spec import ReadSpec
from data.read.stripes import Stripe
from data.sample import sampling

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
    file_key: int
    """As of `data.format.tail.Tail`."""


@dataclass(frozen=True)
class FileSummary:
    """Totals over a set of files."""

    files: int
    rows: int
    file_bytes: int
    stripes: int

    @staticmethod
    def of(footers: Sequence[Footer]) -> FileSummary:
        """The totals of `footers`."""
        return FileSummary(
            files=len(footers),
            rows=sum(stripe.rows for footer in footers for stripe in footer.stripes),
            file_bytes=sum(footer.file_bytes for footer in footers),
            stripes=sum(len(footer.stripes) for footer in footers),
        )


def read_footer(path: str) -> Footer:
    """The footer of the ORC file `path`. Raises `DataError` when there is none to read."""
    try:
        with open_input(path) as opened:
            file = keep_end(opened, _KEPT_BYTES) if is_remote(path) else opened
            tail = read_tail(file, path)
            check_named(tail)
            # pyarrow decodes and so has the last word on types.
            schema = orc.ORCFile(file).schema
            schema.names  # noqa: B018 - fails for a name that is no text
    except FileNotFoundError:
        raise DataError(f"{path}: expected an ORC file, found no file by that name") from None
    except OSError as error:
        if error.errno is not None and error.strerror:
            raise DataError(f"{path}: expected a readable ORC file, found: {error.strerror}") from error
        raise _damaged(path, error) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error
    first_rows = itertools.accumulate((stripe.rows for stripe in tail.stripes), initial=0)
    stripes = [Stripe(path, i, first, stripe.rows) for i, (first, stripe) in enumerate(zip(first_rows, tail.stripes))]
    return Footer(path, tail.file_bytes, schema, tuple(stripes), tail.file_key)


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
    footers, problems = _footers(paths, lambda footer: column_problems(footer, columns))
    return _with_rows(footers, [line for lines in problems.values() for line in lines], paths)


def read_good_footers(spec: ReadSpec) -> tuple[list[Footer], tuple[tuple[str, str], ...]]:
    """The footers of the files of `spec` that can be read as it says; the others as (path, what is wrong).

    Raises `DataError` as `read_footers` for a file that cannot, with `on_bad: skip` only when no row is left.
    """
    footers, problems = _footers(spec.paths, lambda footer: spec_problems(footer, spec))
    lines = [line for lines in problems.values() for line in lines]
    skip = spec.on_bad == "skip" and any(footer.stripes for footer in footers)
    footers = _with_rows(footers, [] if skip else lines, spec.paths)
    return footers, tuple((path, "; ".join(lines)) for path, lines in problems.items())


def check_files(paths: Sequence[str], columns: Sequence[Column]) -> FileSummary:
    """Totals of `paths`, after checking their footers as `read_footers` does."""
    return FileSummary.of(read_footers(paths, columns))


def spec_problems(footer: Footer, spec: ReadSpec) -> list[str]:
    """A line for each thing that keeps a file from being read as `spec` says."""
    problems = column_problems(footer, spec.columns)
    if spec.where is not None:
        problems += where.type_problems(spec.where, footer.schema, footer.path)
    if spec.sampling is not None:
        problems += sampling.column_problems(spec.sampling, footer.schema, footer.path)
    return problems


def _footers(paths: Sequence[str], check: Callable[[Footer], list[str]]) -> tuple[list[Footer], dict[str, list[str]]]:
    """The footers that are right, and the problems of the other paths."""
    footers = []
    problems: dict[str, list[str]] = {}
    for path, footer in zip(paths, read_each(paths)):
        if isinstance(footer, DataError):
            problems[path] = [str(footer)]
            continue
        found = check(footer)
        if found:
            problems[path] = found
        else:
            footers.append(footer)
    return footers, problems


def _with_rows(footers: list[Footer], problems: list[str], paths: Sequence[str]) -> list[Footer]:
    if not problems and not any(footer.stripes for footer in footers):
        problems = [f"{', '.join(paths) or 'no file'}: expected at least one row, found none"]
    if problems:
        more = len(problems) - _SHOWN_PROBLEMS
        shown = problems[:_SHOWN_PROBLEMS] + ([f"and {more} more problems"] if more > 0 else [])
        raise DataError("\n".join(shown))
    return footers


def _damaged(path: str, error: Exception) -> DataError:
    return DataError(f"{path}: expected an ORC file, found a truncated or damaged one ({error})")


def column_problems(footer: Footer, columns: Sequence[Column]) -> list[str]:
    """A line for each of `columns` that the file lacks or holds as another type."""
    problems = []
    names = footer.schema.names
    for column in columns:
        place = f"{footer.path}: column {column.name}"
        count = names.count(column.name)
        if count == 0:
            near = difflib.get_close_matches(column.name, names, n=1)
            has = ", ".join(names[:_SHOWN_COLUMNS]) + (", …" if len(names) > _SHOWN_COLUMNS else "")
            problems.append(
                f"{place}: expected {expected_type(column)}, found no such column; "
                + (f"did you mean {near[0]}?" if near else f"the file has: {has or 'none'}")
            )
        elif count > 1:
            problems.append(f"{place}: expected one column of that name, found {count}")
        elif not accepts(column, footer.schema.field(column.name).type):
            found = footer.schema.field(column.name).type
            problems.append(f"{place}: expected {expected_type(column)}, found {found}")
    return problems
