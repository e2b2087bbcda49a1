"""Checksums of an ORC file's parts, kept in the file: a wrong byte is found before its values are used.

They are CRC-32s of what lies on the disk: for each stripe, of each top-level column with its children, one of its index
and one of its data; of the rest; and of the stripe statistics and footer. They travel as a binary value of the footer's
user metadata, the last one, behind all that they cover. Files of other writers have none.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from data.errors import DataError
from data.format.footer import append_metadata
from data.format.tail import CHECKSUMS_KEY as KEY
from data.format.tail import Stream, Tail, read_stripe_footer, read_tail

_FORMAT = 2
_HEADER = struct.Struct("<IIIQII")  # format, columns, stripes, tail_start, tail_bytes, tail_crc
_ENTRY = np.dtype(
    [
        *(("index_start", "<u8"), ("index_bytes", "<u4"), ("data_start", "<u8"), ("data_bytes", "<u4")),
        *(("index_crc", "<u4"), ("data_crc", "<u4")),
    ]
)
_CRC = struct.Struct("<I")
_LARGEST_BYTES = 2**32 - 1
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Checksums:
    """What the bytes of one file should be."""

    path: str
    names: tuple[str, ...]
    """Of the top-level columns; of equal names only the first can be asked for."""
    tail_start: int
    tail_bytes: int
    """The stripe statistics and footer that the checksums cover: all that lies before the checksums themselves."""
    tail_crc: int
    entries: np.ndarray
    """`[stripes, 1 + columns]` of (index_start, index_bytes, data_start, data_bytes, index_crc, data_crc). Entry 0 of a
    stripe: the root's index, and as its data the stripe's footer."""


def add_checksums(path: str) -> None:
    """Adds the checksums of the finished ORC file `path` to its footer, in place; earlier ones are replaced.

    For files that nobody reads yet. Raises `DataError` for a file whose layout checksums cannot describe.
    """
    add_metadata(path, {}, fresh=True)


def add_metadata(path: str, metadata: Mapping[str, str | bytes], fresh: bool = False) -> None:
    """Adds user metadata to the footer of the finished ORC file `path`, in place, and its checksums behind.

    For files that nobody reads yet. `fresh`: the checksums of the stripes are computed also when the file has some.
    """
    values = {name: value.encode() if isinstance(value, str) else value for name, value in metadata.items()}
    if KEY in values:
        raise ValueError(f"metadata: expected other names than {KEY}, which is the checksums' own")
    with pa.memory_map(os.fsencode(path)) as file:
        tail = read_tail(file, path)
        earlier = load(file, tail)
        entries = _entries(file, tail) if earlier is None or fresh else earlier.entries
    at = earlier.tail_start + earlier.tail_bytes if earlier is not None else None
    end = append_metadata(path, tail, values, at)
    with pa.memory_map(os.fsencode(path)) as file:
        tail = read_tail(file, path)
        covered = _crc(file, path, tail.start, end - tail.start)
    value = _encode(len(tail.types[0].subtypes), tail.start, end - tail.start, covered, entries)
    append_metadata(path, tail, {KEY: value})


def read(user_metadata: Mapping[str, bytes], path: str = "file", names: Sequence[str] = ()) -> Checksums | None:
    """The checksums in a file's user metadata; None when it has none.

    `path` and `names` of its top-level columns are for errors, and to ask for columns by name. Raises `DataError` when
    the value itself is damaged. Better use `load`, which also checks that they belong to the file.
    """
    value = user_metadata.get(KEY)
    if value is None:
        # One wrong byte in the name must not pass for a file without checksums; its value still proves what it is.
        renamed = [name for name, other in user_metadata.items() if _is_whole(other)]
        if renamed:
            raise _wrong(path, f"their name is {renamed[0]!r}")
        return None
    if not _is_whole(value):
        raise _wrong(path, "they do not fit their own checksum")
    _, columns, stripes, tail_start, tail_bytes, tail_crc = _HEADER.unpack_from(value)
    entries = np.frombuffer(value, _ENTRY, stripes * (columns + 1), _HEADER.size).reshape(stripes, columns + 1)
    return Checksums(path, tuple(names), tail_start, tail_bytes, tail_crc, entries)


def load(file: pa.NativeFile, tail: Tail) -> Checksums | None:
    """The checksums of a file, after comparing its tail with them; None when it has none. Raises `DataError`."""
    expected = (len(tail.stripes), 1 + len(tail.types[0].subtypes))
    checksums = read(tail.user_metadata, tail.path, tail.types[0].field_names)
    if checksums is None:
        check_named(tail)
        return None
    if checksums.entries.shape != expected:
        raise _wrong(tail.path, f"they are of {checksums.entries.shape} stripes and parts, the file has {expected}")
    footer_end = tail.start + tail.metadata_bytes + tail.footer_bytes
    covered_end = checksums.tail_start + checksums.tail_bytes
    if checksums.tail_start != tail.start or not tail.start <= covered_end < footer_end:
        raise _wrong(tail.path, f"its tail starts at byte {tail.start}, expected at {checksums.tail_start}")
    if _crc(file, tail.path, tail.start, checksums.tail_bytes) != checksums.tail_crc:
        raise DataError(
            f"{tail.path}: stripe statistics and footer: expected CRC {checksums.tail_crc:08x}, found another; "
            "the file is damaged"
        )
    return checksums


def check_named(tail: Tail) -> None:
    """Raises `DataError` for a file whose checksums lost their name, also when they are damaged themselves: their size
    and that of their name together are nobody else's."""
    size = _HEADER.size + len(tail.stripes) * (1 + len(tail.types[0].subtypes)) * _ENTRY.itemsize + _CRC.size
    for name, value in tail.user_metadata.items():
        if name != KEY and len(name) == len(KEY) and len(value) == size:
            raise _wrong(tail.path, f"their name is {name!r}")


def verify_stripe(file: pa.NativeFile, checksums: Checksums, stripe: int, columns: Iterable[str] | None = None) -> None:
    """Compares the bytes of some top-level columns of a stripe, and its footer, with their checksums.

    `columns`: names; all by default. Ranges that touch each other are read at once. Raises `DataError` that names file,
    stripe and column.
    """
    row = checksums.entries[stripe]
    numbers = range(len(row)) if columns is None else [0, *(1 + checksums.names.index(name) for name in columns)]
    _verify(file, checksums, stripe, [(number, part) for number in numbers for part in ("index", "data")])


class VerifiedIndex:
    """Footer and indexes of a stripe in memory, to be read at their places in the file."""

    def __init__(self, path: str, ranges: Sequence[tuple[int, memoryview]]):
        self._path = path
        self._ranges = ranges

    def read_at(self, length: int, offset: int) -> bytes:
        """Raises `DataError` for bytes that were not verified."""
        for start, content in self._ranges:
            if start <= offset and offset + length <= start + len(content):
                return bytes(content[offset - start : offset - start + length])
        raise _wrong(self._path, f"{length} bytes at {offset} are an index that they do not cover")


def verify_index(file: pa.NativeFile, checksums: Checksums, stripe: int, columns: Iterable[str]) -> VerifiedIndex:
    """Compares the row indexes and bloom filters of some top-level columns of a stripe, and its footer, with their
    checksums, and gives these bytes; reads nothing else. Raises as `verify_stripe` does."""
    indexes = [(1 + checksums.names.index(name), "index") for name in columns]
    return VerifiedIndex(checksums.path, _verify(file, checksums, stripe, [*indexes, (0, "data")]))


def _verify(
    file: pa.NativeFile, checksums: Checksums, stripe: int, parts: Sequence[tuple[int, str]]
) -> list[tuple[int, memoryview]]:
    """Where each of `parts` (number of the entry, "index" or "data") starts, and its bytes, which are right."""
    row = checksums.entries[stripe]
    starts = [int(row[number][f"{part}_start"]) for number, part in parts]
    lengths = [int(row[number][f"{part}_bytes"]) for number, part in parts]
    contents = _read_ranges(file, checksums.path, starts, lengths)
    for (number, part), content in zip(parts, contents):
        found, expected = zlib.crc32(content), row[number][f"{part}_crc"]
        if found != expected:
            if number:
                what = f"column {checksums.names[number - 1]}" + (" (index)" if part == "index" else "")
            else:
                what = "index of the rows" if part == "index" else "footer"
            raise DataError(
                f"{checksums.path}: stripe {stripe}: {what}: expected CRC {expected:08x}, found {found:08x}; "
                "the file is damaged"
            )
    return list(zip(starts, contents))


def _entries(file: pa.NativeFile, tail: Tail) -> np.ndarray:
    """The entries of a file, computed from its bytes."""
    columns = _top_level(tail)
    entries = np.zeros((len(tail.stripes), 1 + len(tail.types[0].subtypes)), _ENTRY)
    for number, info in enumerate(tail.stripes):
        streams: dict[tuple[int, bool], list[Stream]] = {}
        for stream in read_stripe_footer(file, tail, number).streams:
            streams.setdefault((columns[stream.column], stream.is_index), []).append(stream)
        for column in range(entries.shape[1]):
            where = f"{tail.path}: stripe {number}: column {tail.types[0].field_names[column - 1] if column else 0}"
            index = _range(streams.get((column, True), []), info.offset, where)
            if column:
                data = _range(streams.get((column, False), []), info.offset + info.index_bytes, where)
            elif (0, False) in streams:
                raise DataError(f"{where}: expected no data of the rows themselves, found some (rows that are null)")
            else:
                data = (info.footer_offset, info.footer_bytes)
            if max(index[1], data[1]) > _LARGEST_BYTES:
                raise DataError(f"{where}: expected at most {_LARGEST_BYTES} bytes, found {max(index[1], data[1])}")
            entries[number, column] = (*index, *data, *(_crc(file, tail.path, *part) for part in (index, data)))
    return entries


def _top_level(tail: Tail) -> list[int]:
    """By ORC type id: number of the top-level column it belongs to, from 1; the root itself is 0."""
    numbers = [0] * len(tail.types)
    for number, kind in enumerate(tail.types):  # a child comes after its parent
        for place, child in enumerate(kind.subtypes, start=1):
            numbers[child] = numbers[number] if number else place
    return numbers


def _range(streams: Sequence[Stream], nowhere: int, where: str) -> tuple[int, int]:
    """(start, bytes) of streams, which must follow each other."""
    for first, second in zip(streams, streams[1:]):
        if first.offset + first.bytes != second.offset:
            raise DataError(f"{where}: expected streams that follow each other, found a gap at byte {second.offset}")
    return (streams[0].offset, sum(stream.bytes for stream in streams)) if streams else (nowhere, 0)


def _encode(columns: int, tail_start: int, tail_bytes: int, tail_crc: int, entries: np.ndarray) -> bytes:
    header = _HEADER.pack(_FORMAT, columns, len(entries), tail_start, tail_bytes, tail_crc)
    content = header + np.ascontiguousarray(entries).tobytes()
    return content + _CRC.pack(zlib.crc32(content))


def _is_whole(value: bytes) -> bool:
    """Whether `value` has the form of checksums and fits its own CRC."""
    if len(value) < _HEADER.size + _CRC.size:
        return False
    format_, columns, stripes, *_ = _HEADER.unpack_from(value)
    if format_ != _FORMAT or len(value) != _HEADER.size + stripes * (columns + 1) * _ENTRY.itemsize + _CRC.size:
        return False
    return bool(_CRC.unpack_from(value, len(value) - _CRC.size)[0] == zlib.crc32(value[: -_CRC.size]))


def _crc(file: pa.NativeFile, path: str, start: int, length: int) -> int:
    """CRC-32 of `length` bytes from `start`, in bounded memory."""
    crc = 0
    for offset in range(start, start + length, _PIECE_BYTES):
        crc = zlib.crc32(_read(file, path, offset, min(_PIECE_BYTES, start + length - offset)), crc)
    return crc


def _read_ranges(file: pa.NativeFile, path: str, starts: Sequence[int], lengths: Sequence[int]) -> list[memoryview]:
    """The bytes of each range; those that touch are read at once."""
    contents = [memoryview(b"")] * len(starts)
    order = sorted((k for k in range(len(starts)) if lengths[k]), key=starts.__getitem__)
    while order:
        run = [order[0]]
        end = starts[order[0]] + lengths[order[0]]
        for k in order[1:]:
            if starts[k] != end:
                break
            run.append(k)
            end += lengths[k]
        order = order[len(run) :]
        start = starts[run[0]]
        content = memoryview(_read(file, path, start, end - start))
        for k in run:
            contents[k] = content[starts[k] - start : starts[k] - start + lengths[k]]
    return contents


def _read(file: pa.NativeFile, path: str, start: int, length: int) -> bytes:
    content: bytes = file.read_at(length, start)
    if len(content) != length:
        raise _wrong(path, f"expected {length} bytes at {start}, found {len(content)}")
    return content


def _wrong(path: str, what: str) -> DataError:
    return DataError(f"{path}: expected checksums of this file, found damaged ones ({what})")
