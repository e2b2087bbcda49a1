"""What is converted: source files, their formats, and the units of work they are cut into."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from data.convert.crc32c import masked_crc32c
from data.errors import DataError
from data.read.footers import read_footer

# About so many bytes of a Parquet or ORC file are one unit: what two processes can share out.
UNIT_BYTES = 64 << 20

_ENDINGS = {
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".orc": "orc",
}
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class SourceFile:
    """One file to convert."""

    path: str
    format: str  # tfrecord, csv, tsv, parquet or orc
    gzip: bool
    bytes: int
    mtime_ns: int


@dataclass(frozen=True)
class Unit:
    """Rows of one source that one process converts: row groups or stripes `first` to `last` - 1, or the whole file."""

    source: SourceFile
    first: int
    last: int
    first_row: int  # in the source


def expand(patterns: Sequence[str], base: str) -> list[str]:
    """The files that `patterns` name: files, folders (the files in it, not in its sub-folders) and globs.

    Relative patterns start at `base`. The files of a pattern are sorted by name; a file named twice counts once. In a
    folder, names that start with `.` or `_` are left out, and a manifest. Raises DataError.
    """
    files: dict[str, None] = {}
    problems = []
    for pattern in patterns:
        if not pattern:
            problems.append("'': expected a file, folder or pattern, found an empty name")
            continue
        full = os.path.join(base, pattern)
        # What exists is meant literally; only what the user wrote is a pattern, not the folder it starts at.
        within = os.path.join(glob.escape(base), pattern)
        matches = [full] if os.path.lexists(full) else sorted(glob.glob(within, recursive=True))
        found = [file for match in matches for file in _files_of(match)]
        if not found:
            why = "an empty folder" if matches else "nothing by that name"
            problems.append(f"{full}: expected a file, a folder with files or a pattern that names files, found {why}")
        files.update(dict.fromkeys(found))
    if problems:
        raise DataError("\n".join(problems))
    return list(files)


def describe(path: str, wanted: str) -> SourceFile:
    """The file with its format: `wanted`, or for `auto` as its name or its first bytes say. Raises DataError."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # a pipe would have us wait, and is gone once it is read
            raise DataError(f"{path}: expected a file, found something else by that name")
        with open(path, "rb") as file:
            head = file.read(16)
    except OSError as error:
        raise DataError(f"{path}: expected a file that can be read, found: {error.strerror}") from None
    if not status.st_size:
        raise DataError(f"{path}: expected samples, found an empty file")
    gzip = head.startswith(_GZIP_MAGIC)
    name = path.removesuffix(".gz") if gzip else path
    if wanted in ("csv", "tsv") and (found := _binary_format(_head(path, gzip))):
        raise DataError(f"{path}: expected {wanted}, as the format says, found {found}")
    form = wanted if wanted != "auto" else _ENDINGS.get(os.path.splitext(name)[1].lower()) or _by_content(path, gzip)
    return SourceFile(path, form, gzip, status.st_size, status.st_mtime_ns)


def units_of(source: SourceFile) -> list[Unit]:
    """The source in units, which depend on the file alone. Raises DataError for a damaged file."""
    if source.format not in ("parquet", "orc"):
        return [Unit(source, 0, 1, 0)]
    groups = group_rows(source)
    per_unit = max(1, round(len(groups) * UNIT_BYTES / max(source.bytes, 1)))
    units, row = [], 0
    for first in range(0, len(groups), per_unit):
        last = min(first + per_unit, len(groups))
        units.append(Unit(source, first, last, row))
        row += sum(groups[first:last])
    return units or [Unit(source, 0, 0, 0)]


def opened(path: str) -> pa.NativeFile:
    """The file, for reading; its name may hold bytes that are no text."""
    return pa.OSFile(os.fsencode(path))


def group_rows(source: SourceFile) -> list[int]:
    """Rows of each row group (Parquet) or stripe (ORC)."""
    try:
        if source.format == "parquet":
            with opened(source.path) as opened_file, pq.ParquetFile(opened_file) as file:
                return [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]
        return [stripe.rows for stripe in read_footer(source.path).stripes]
    except (pa.ArrowException, OSError) as error:
        raise damaged(source, error) from None


def damaged(source: SourceFile, error: Exception) -> DataError:
    """The error of a file that cannot be decoded."""
    kind = {"parquet": "a Parquet file", "orc": "an ORC file", "tfrecord": "TFRecords"}.get(source.format, "text")
    gzipped = ", gzipped," if source.gzip else ""
    return DataError(f"{source.path}: expected {kind}{gzipped} that can be read, found: {_one_line(error)}")


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name[0] not in "._" and name != "manifest.json")
    return [full for name in names if os.path.isfile(full := os.path.join(path, name))]


def _by_content(path: str, gzip: bool) -> str:
    head = _head(path, gzip)
    if binary := _binary_format(head):
        return binary
    if b"\0" in head:
        raise DataError(f"{path}: expected TFRecord, CSV, TSV, Parquet or ORC, found other bytes")
    return "tsv" if b"\t" in head.partition(b"\n")[0] else "csv"


def _binary_format(head: bytes) -> str | None:
    """The format that a file's first bytes show, other than text."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ORC") and b"\0" in head:  # a text's first column may be named so
        return "orc"
    if len(head) >= 12 and masked_crc32c(head[:8]) == int.from_bytes(head[8:12], "little"):
        return "tfrecord"
    return None


def _head(path: str, gzip: bool) -> bytes:
    try:
        with opened(path) as file, pa.input_stream(file, compression="gzip" if gzip else None) as stream:
            return stream.read(1 << 12)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path}: expected a gzipped file that can be read, found: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:199] + "…"
