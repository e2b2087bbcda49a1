"""Segments: ORC files that grow, whose content up to the last flush survives whatever ends their writer.

A segment is written by pyorc, whose intermediate footers make all that lies before them a whole ORC file. Beside it a
journal records after each flush how long the segment was and the CRC-32 of what the flush added. The segment's bytes
are on the disk before the record is; so the longest run of records that fit the segment's bytes ends at a whole file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyorc
from pyarrow import orc

from data.append.rows import orc_schema
from data.errors import DataError
from data.files import open_input
from data.orc_writer import OrcWriter, Settings

SUFFIX = ".segment"
_JOURNAL = ".journal"
_RECORD = struct.Struct("<QII")  # length of the segment, CRC of what was added, CRC of the record before this field
_STRIPE_BYTES = 1 << 22
_PIECE_BYTES = 1 << 20


class SegmentWriter:
    """Appends rows to a new segment `path`. After an error it is of no more use; what was flushed stays."""

    def __init__(self, path: str, schema: pa.Schema):
        self.path = path
        self.flushes = 0
        self._sink = _Sink(path)
        self._journal = os.open(_journal(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        # Only whole batches of pyorc's are part of what it flushes; of one row each there is never a rest.
        self._writer = pyorc.Writer(
            cast(BinaryIO, self._sink),
            orc_schema(schema),
            batch_size=1,
            stripe_size=_STRIPE_BYTES,
            compression=pyorc.CompressionKind.ZSTD,
        )
        sync_folder(os.path.dirname(path))

    @property
    def bytes(self) -> int:
        """Length of the segment; what pyorc still holds in memory is not counted."""
        return self._sink.length

    def write(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Appends rows in the order of the columns."""
        self._writer.writerows(rows)

    def flush(self) -> None:
        """Returns when all rows are on the disk to stay."""
        before = self._sink.flushed
        self._writer.write_intermediate_footer()
        if self._sink.length == before:
            return
        os.fdatasync(self._sink.descriptor)
        record = struct.pack("<QI", self._sink.length, self._sink.take_crc())
        os.write(self._journal, record + struct.pack("<I", zlib.crc32(record)))
        os.fdatasync(self._journal)
        self.flushes += 1

    def close(self) -> None:
        """Gives the files free, without a flush."""
        self._sink.close()
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1


class _Sink:
    """The file as pyorc sees it. Only `write` may raise: the others are called where C++ cannot stand an error."""

    closed = False

    def __init__(self, path: str):
        self.name = os.fsencode(path).decode("utf-8", "replace")  # C++ refuses other texts
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.length = 0
        self.flushed = 0
        self._crc = 0

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            written = os.write(self.descriptor, rest)
            rest = rest[written:]
        self._crc = zlib.crc32(data, self._crc)
        self.length += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def take_crc(self) -> int:
        """CRC of what was written since this was asked last."""
        crc, self._crc, self.flushed = self._crc, 0, self.length
        return crc

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@dataclass(frozen=True)
class Flushed:
    """What of a segment survives."""

    bytes: int
    """Length of the whole file at its start; 0 when nothing was flushed."""
    lost_bytes: int
    """Bytes that had been flushed and are not there any more as they were: the disk's fault."""


def flushed(path: str) -> Flushed:
    """How much of the segment `path` holds what was flushed, by its journal."""
    try:
        with open(_journal(path), "rb") as file:
            journal = file.read()
    except FileNotFoundError:
        return Flushed(0, 0)
    good = last = 0
    fits = True
    with open(path, "rb") as segment:
        for start in range(0, len(journal) - _RECORD.size + 1, _RECORD.size):
            length, crc, own_crc = _RECORD.unpack_from(journal, start)
            if zlib.crc32(journal[start : start + _RECORD.size - 4]) != own_crc or length <= last:
                break  # the last record was not written to its end
            fits = fits and _crc(segment, length - last) == crc
            good = length if fits else good
            last = length
    return Flushed(good, last - good)


def cut(path: str, keep_as: str) -> Flushed:
    """Cuts the segment `path` of a writer that is gone at its last flush; removes it when nothing was flushed.

    If the disk lost some of what was flushed, the segment as it is found is kept as `keep_as`.
    """
    found = flushed(path)
    if found.lost_bytes:
        shutil.copyfile(path, keep_as)
    if found.bytes:
        os.truncate(path, found.bytes)
    else:
        remove([path])
    return found


def read_schema(path: str) -> pa.Schema:
    """The schema of a segment that ends with a flush. Raises `DataError`."""
    try:
        return orc.ORCFile(open_input(path)).schema
    except pa.ArrowException as error:
        raise _damaged(path, error) from error


def finish(segments: Sequence[str], path: str, beside: str, schema: pa.Schema, settings: Settings) -> None:
    """Makes one ORC file `path` of the rows of segments that end with a flush, then removes the segments.

    `beside`: where the file grows, in the same file system. If `path` is there already, an earlier call came that far.
    Raises `DataError` for a segment that cannot be decoded.
    """
    if not os.path.exists(path):
        with OrcWriter(beside, schema, settings=settings) as writer:
            for segment in segments:
                _copy(segment, schema, writer)
        os.replace(beside, path)
        sync_folder(os.path.dirname(path))
    remove(segments)


def remove(segments: Iterable[str]) -> None:
    """Removes segments with their journals."""
    for segment in segments:
        for name in (segment, _journal(segment)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def sync_folder(path: str) -> None:
    """Waits until the names in the folder are on the disk."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(segment: str, schema: pa.Schema, writer: OrcWriter) -> None:
    try:
        file = orc.ORCFile(open_input(segment))
        for stripe in range(file.nstripes):
            batch = file.read_stripe(stripe)
            columns = [batch.column(k).cast(field.type) for k, field in enumerate(schema)]
            writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    except pa.ArrowException as error:
        raise _damaged(segment, error) from error


def _damaged(segment: str, error: Exception) -> DataError:
    return DataError(f"{segment}: expected rows that were flushed, found damage ({error})")


def _crc(file: Any, length: int) -> int:
    crc = 0
    while length:
        piece = file.read(min(length, _PIECE_BYTES))
        if not piece:
            return -1
        crc = zlib.crc32(piece, crc)
        length -= len(piece)
    return crc


def _journal(path: str) -> str:
    return path.removesuffix(SUFFIX) + _JOURNAL
