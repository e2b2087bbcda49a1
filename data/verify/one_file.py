"""Reading all of an ORC file and comparing it with what the file, and a manifest, say of it.

Bytes with their checksums, rows with the footer, values with the statistics and bloom filters that decide what a reader
skips. In memory is one column of one stripe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from data import files
from data.errors import DataError
from data.format import checksums
from data.format.bloom import all_might_be_there
from data.format.checksums import Checksums
from data.format.statistics import Statistics
from data.format.tail import StripeFooter, Tail, bloom_filters, read_stripe_footer, read_tail, row_index

_PIECE_BYTES = 1 << 20


@dataclass
class FileReport:
    """What was found in one file."""

    path: str
    rows: int = 0
    """Of the stripes in which nothing was wrong."""
    stripes: int = 0
    file_bytes: int = 0
    has_checksums: bool = False
    problems: list[str] = field(default_factory=list)
    """A line each, that names file and, where there is one, stripe and column."""


@dataclass
class _Found:
    """Decoded values of one ORC type in one or more stripes."""

    count: int = 0
    nulls: int = 0
    minimum: int | float | None = None
    maximum: int | float | None = None
    total: int | None = 0

    def add(self, other: _Found) -> None:
        self.count += other.count
        self.nulls += other.nulls
        if other.minimum is not None and other.maximum is not None:
            self.minimum = other.minimum if self.minimum is None else min(self.minimum, other.minimum)
            self.maximum = other.maximum if self.maximum is None else max(self.maximum, other.maximum)
        self.total = None if self.total is None or other.total is None else self.total + other.total


def verify_file(
    path: str, listed: Mapping[str, Any] | None = None, progress: Callable[[int, int], None] = lambda stripe, rows: None
) -> FileReport:
    """Reads all of the file `path`.

    `listed`: what a manifest says of it: any of `bytes`, `rows`, `sha256`. `progress` is called before each stripe with
    its number and rows. A file that is not there, or not ORC, is a problem like any other.
    """
    report = FileReport(path)
    try:
        with files.open_input(path) as file:
            _verify(file, report, listed or {}, progress)
    except FileNotFoundError:
        report.problems.append(f"{path}: expected an ORC file, found no file by that name")
    except (DataError, OSError, pa.ArrowException, MemoryError) as error:
        text = _one_line(error) or "expected values that fit into the memory, found more"
        report.problems.append(text if text.startswith(path) else f"{path}: {text}")
    return report


def _verify(
    file: pa.NativeFile, report: FileReport, listed: Mapping[str, Any], progress: Callable[[int, int], None]
) -> None:
    path = report.path
    report.file_bytes = file.size()
    if "bytes" in listed and listed["bytes"] != report.file_bytes:
        report.problems.append(f"{path}: expected {listed['bytes']} bytes (manifest), found {report.file_bytes}")
    if "sha256" in listed and listed["sha256"] != (digest := _sha256(file)):
        report.problems.append(f"{path}: expected SHA-256 {listed['sha256']} (manifest), found {digest}")
    tail = read_tail(file, path)
    report.stripes = len(tail.stripes)
    if "rows" in listed and listed["rows"] != tail.rows:
        report.problems.append(f"{path}: expected {listed['rows']} rows (manifest), found {tail.rows}")
    sums = checksums.load(file, tail)
    report.has_checksums = sums is not None
    decoder = orc.ORCFile(file)
    if decoder.nrows != tail.rows or decoder.nstripes != len(tail.stripes):
        report.problems.append(f"{path}: expected {tail.rows} rows, the decoder tells {decoder.nrows}")
    whole_file: dict[int, _Found] = {}
    for stripe, info in enumerate(tail.stripes):
        progress(stripe, info.rows)
        before = len(report.problems)
        report.problems += _verify_stripe(file, tail, sums, decoder, stripe, whole_file)
        if len(report.problems) == before:
            report.rows += info.rows
    if not report.problems:
        for type_id, found in whole_file.items():
            if tail.column_statistics and _is_told(tail, type_id):
                report.problems += _compare(
                    f"{path}: file: {_name(tail, type_id)}", tail.column_statistics[type_id], found
                )


def _verify_stripe(
    file: pa.NativeFile,
    tail: Tail,
    sums: Checksums | None,
    decoder: orc.ORCFile,
    stripe: int,
    whole_file: dict[int, _Found],
) -> list[str]:
    names = tail.types[0].field_names
    where = f"{tail.path}: stripe {stripe}"
    problems = []
    damaged = set()
    if sums is not None:
        try:
            checksums.verify_stripe(file, sums, stripe)
        except DataError:
            try:
                checksums.verify_stripe(file, sums, stripe, [])
            except DataError as error:  # without its footer nothing of the stripe can be decoded
                return [str(error)]
            for number, name in enumerate(names):
                try:
                    checksums.verify_stripe(file, sums, stripe, [name])
                except DataError as error:
                    problems.append(str(error))
                    damaged.add(number)
    try:
        footer = read_stripe_footer(file, tail, stripe)
    except DataError as error:
        return [*problems, str(error)]
    for number, name in enumerate(names):
        if number in damaged:
            continue
        column = f"{where}: column {name}"
        try:
            if names.count(name) == 1:
                array = decoder.read_stripe(stripe, [name]).column(0)
            else:
                array = decoder.read_stripe(stripe).column(number)
        except (pa.ArrowException, OSError, MemoryError) as error:
            problems.append(f"{column}: expected values that can be decoded, found: {_one_line(error) or 'too many'}")
            continue
        if len(array) != tail.stripes[stripe].rows:
            problems.append(f"{column}: expected {tail.stripes[stripe].rows} rows, found {len(array)}")
            continue
        try:
            problems += _verify_column(file, tail, footer, stripe, tail.types[0].subtypes[number], array, whole_file)
        except DataError as error:
            problems.append(str(error))
    return problems


def _verify_column(
    file: pa.NativeFile,
    tail: Tail,
    footer: StripeFooter,
    stripe: int,
    column: int,
    array: pa.Array,
    whole_file: dict[int, _Found],
) -> list[str]:
    """Compares a decoded column, and the items of a list, with its statistics and bloom filters."""
    problems = []
    stride = tail.row_index_stride
    for type_id, slices in _parts(tail, column, array, stride or len(array)):
        where = f"{tail.path}: stripe {stripe}: {_name(tail, type_id)}"
        whole = _Found()
        groups = row_index(file, tail, stripe, type_id, footer)
        blooms = bloom_filters(file, tail, stripe, type_id, footer)
        for number, part in enumerate(slices):
            found = _found(part)
            whole.add(found)
            group = f"{where}: row group {number}"
            if groups and _is_told(tail, type_id):
                problems += _compare(group, groups[number], found)
            if blooms and not _all_there(blooms[number], part):
                problems.append(f"{group}: expected a bloom filter of its values, found one that denies some")
        if tail.stripe_statistics and _is_told(tail, type_id):
            problems += _compare(where, tail.stripe_statistics[stripe][type_id], whole)
        whole_file.setdefault(type_id, _Found()).add(whole)
    return problems


def _parts(tail: Tail, column: int, array: pa.Array, stride: int) -> Iterator[tuple[int, list[pa.Array]]]:
    """(ORC type id, values by row group) of a column and of a list's items; other nested types only as a whole."""
    slices = [array.slice(start, stride) for start in range(0, len(array), stride)]
    yield column, slices
    if tail.types[column].kind == "array":
        (items,) = tail.types[column].subtypes
        if not tail.types[items].subtypes:
            yield items, [part.flatten() for part in slices]


def _found(array: pa.Array) -> _Found:
    found = _Found(len(array) - array.null_count, array.null_count, total=None)
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_boolean(array.type):
        ends = pc.min_max(array).as_py()
        if ends["min"] is not None:
            low, high = ends["min"], ends["max"]
            found.minimum, found.maximum = (int(low), int(high)) if isinstance(low, bool) else (low, high)
    if pa.types.is_integer(array.type):
        found.total = _sum(array)
    return found


def _sum(array: pa.Array) -> int:
    """Sum of integers, exact where 64 bits would overflow."""
    values = array.drop_null().to_numpy().astype(np.int64)
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _all_there(bloom: Any, array: pa.Array) -> bool:
    values = array.drop_null()
    if pa.types.is_integer(values.type):
        return all_might_be_there(bloom, values.to_numpy().astype(np.int64))
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy().astype(np.float64)
        return all_might_be_there(bloom, numbers[~np.isnan(numbers) & (numbers != 0)])
    return True


def _compare(where: str, told: Statistics, found: _Found) -> list[str]:
    problems = []
    if told.count != found.count:
        problems.append(f"{where}: expected {told.count} values that are not null (statistics), found {found.count}")
    if found.nulls and not told.has_null:
        problems.append(f"{where}: expected no null (statistics), found {found.nulls}")
    if found.count == told.count and told.minimum is not None and found.minimum is not None:
        if (told.minimum, told.maximum) != (found.minimum, found.maximum):
            problems.append(
                f"{where}: expected values from {told.minimum} to {told.maximum} (statistics), "
                f"found from {found.minimum} to {found.maximum}"
            )
        if told.total is not None and found.total is not None and told.total != found.total:
            problems.append(f"{where}: expected the sum {told.total} (statistics), found {found.total}")
    return problems


def _is_told(tail: Tail, type_id: int) -> bool:
    """Whether the statistics of a type mean anything: those of nested types are empty where there is no row index, and
    Arrow's unions know no nulls."""
    kind = tail.types[type_id].kind
    return kind != "uniontype" and (tail.row_index_stride > 0 or not tail.types[type_id].subtypes)


def _name(tail: Tail, type_id: int) -> str:
    """The top-level column that an ORC type is, or is inside of."""
    last = ""
    for name, subtype in zip(tail.types[0].field_names, tail.types[0].subtypes):
        if subtype == type_id:
            return f"column {name}"
        if subtype < type_id:
            last = name
    return f"column {last} (items)"


def _sha256(file: pa.NativeFile) -> str:
    digest = hashlib.sha256()
    for start in range(0, file.size(), _PIECE_BYTES):
        digest.update(file.read_at(_PIECE_BYTES, start))
    return digest.hexdigest()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
