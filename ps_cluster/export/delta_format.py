"""What a delta is on the disk: what makes one version of an export another, for servers that hold the first.

`delta-V-to-W/` holds `model/`, the SavedModel of version W with tables of one row; for each table
`tables/NAME.changed`, rows that are new or other than in version V, in the order of hashes, and `tables/NAME.removed`,
int64 keys that are gone; and `delta.json`, which names both versions, and of each file its size and CRC-32.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, with_config

from ps_cluster.errors import UserError
from ps_cluster.export.description import Source
from ps_cluster.export.frozen_layout import Form
from ps_cluster.export.ordered_rows import CHUNK_BYTES, Chunk, chunk_of
from ps_cluster.export.row_types import RowType
from ps_cluster.json_file import NO_OTHER_FIELDS, checked, read_mapping, taken

DELTA = "delta.json"
MODEL = "model"
FORMAT_VERSION = 1
_READ_BYTES = 1 << 22

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class StoredFile:
    """A file of a delta, and by what it is known whole."""

    bytes: int
    crc32: int


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class TableChange:
    """How many rows of a table are new or other, and how many keys are gone."""

    changed: Count
    removed: Count


@with_config(NO_OTHER_FIELDS)
@dataclass(frozen=True)
class Delta:
    """base, version: numbers of the versions before and after; base_source, source: what they are of. files: all but
    this description, by their paths below the folder."""

    base: Count
    version: Count
    base_source: Source
    source: Source
    form: Form
    rows: RowType
    tables: dict[str, TableChange]
    files: dict[str, StoredFile]


def records_of(width: int, row_type: RowType) -> np.dtype:
    """A row in the file of changed ones."""
    fields: list[Any] = [("key", "<i8"), ("row", np.dtype(row_type), (width,))]
    return np.dtype([*fields, ("scale", "<f4")] if row_type == "int8" else fields)


def changed_path(folder: str, table: str) -> str:
    """The file of changed rows."""
    return os.path.join(folder, "tables", f"{table}.changed")


def removed_path(folder: str, table: str) -> str:
    """The file of keys that are gone."""
    return os.path.join(folder, "tables", f"{table}.removed")


def write_delta(folder: str, delta: Delta) -> None:
    """Writes the description, with sizes and checksums of the files as they are now."""
    paths = [os.path.join(place, name) for place, _, found in os.walk(folder) for name in found]
    files = {os.path.relpath(path, folder): _stored(path) for path in sorted(paths)}
    content = {"format_version": FORMAT_VERSION, **asdict(replace(delta, files=files))}
    with open(os.path.join(folder, DELTA), "w", encoding="utf-8") as file:
        json.dump({**content, "crc32": _crc(content)}, file, indent=1)
        file.write("\n")


def read_delta(folder: str) -> Delta:
    """The delta in a folder, every byte of which has been checked.

    Raises:
        UserError: it is damaged; names the file, and of the description the field.
    """
    path = os.path.join(folder, DELTA)
    content = read_mapping(path, "the description of a delta")
    version = taken(path, content, "format_version", int)
    if version != FORMAT_VERSION:
        raise UserError(f"{path}: expected format version {FORMAT_VERSION}, found {version}")
    crc = taken(path, content, "crc32", int)
    found_crc = _crc({"format_version": version, **content})
    if crc != found_crc:
        raise UserError(f"{path}: damaged: expected a description with its CRC-32 {crc:08x}, found {found_crc:08x}")
    delta = checked(path, content, Delta)
    for name, expected in delta.files.items():
        path = os.path.join(folder, name)
        try:
            found = _stored(path)
        except OSError as error:
            raise UserError(f"{path}: expected a file of the delta, found: {error.strerror}") from None
        if found != expected:
            raise UserError(
                f"{path}: damaged: expected {expected.bytes} bytes with CRC-32 {expected.crc32:08x}, found "
                f"{found.bytes} with {found.crc32:08x}"
            )
    return delta


class ChangedRows:
    """The changed rows of a table in a delta, as `OrderedRows`. UserError: its file holds others than so many."""

    def __init__(self, path: str, num_rows: int, row_type: RowType, unknown: Chunk):
        self.num_rows = num_rows
        self.row_type: RowType = row_type
        self.unknown = unknown
        self.width = unknown.values.shape[1]
        self._path = path
        _check_size(path, num_rows, records_of(self.width, row_type).itemsize)

    def chunks(self) -> Iterator[Chunk]:
        """As many rows at a time as fill a chunk."""
        dtype = records_of(self.width, self.row_type)
        at_once = max(CHUNK_BYTES // dtype.itemsize, 1)
        for start in range(0, self.num_rows, at_once):
            count = min(at_once, self.num_rows - start)
            records = np.fromfile(self._path, dtype, count, offset=start * dtype.itemsize)
            yield chunk_of(records["key"], records["row"], records["scale"] if self.row_type == "int8" else None)


def removed_keys(path: str, num_keys: int) -> np.ndarray:
    """Keys of a table that are gone, int64 `[num_keys]`. UserError: their file holds others than so many."""
    _check_size(path, num_keys, 8)
    return np.fromfile(path, "<i8")


def _check_size(path: str, count: int, record_bytes: int) -> None:
    try:
        found = os.path.getsize(path)
    except OSError as error:
        raise UserError(f"{path}: expected a file of the delta, found: {error.strerror}") from None
    if found != count * record_bytes:
        raise UserError(
            f"{path}: expected {count} of {record_bytes} bytes each, as {DELTA} tells, found {found} bytes in all"
        )


def append_rows(file: Any, chunk: Chunk, row_type: RowType) -> None:
    """Appends changed rows to their file."""
    records = np.empty(len(chunk), records_of(chunk.values.shape[1], row_type))
    records["key"], records["row"] = chunk.keys, chunk.values
    if chunk.scales is not None:
        records["scale"] = chunk.scales
    file.write(records.tobytes())


def _stored(path: str) -> StoredFile:
    crc, size = 0, 0
    with open(path, "rb") as file:
        while piece := file.read(_READ_BYTES):
            crc = zlib.crc32(piece, crc)
            size += len(piece)
    return StoredFile(size, crc)


def _crc(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content).encode())
