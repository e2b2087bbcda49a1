"""Whether a shared library's file is whole: loading one that was cut short, or of which a part was never written, kills
the process (SIGBUS, SIGSEGV)."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from typing import BinaryIO

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")  # of a 64-bit ELF file
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")

_OF_LOADER = frozenset({3, 4, 6, 11, 0x6FFFFFF6})  # STRTAB, RELA, DYNAMIC, DYNSYM, GNU_HASH
_PROGRAM, _RUN = 1, 4  # PROGBITS, and the flag of its sections that are code

_PAGE_BYTES = 4096
_LEAST_BYTES = 256  # of a section in a page of zeros, as a table may end with some


def damage(path: str) -> str | None:
    """What is found at `path` in place of a whole library, in words; None where nothing is wrong to be seen.

    Raises:
      OSError: the file cannot be read.
    """
    kind = os.stat(path).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # a pipe would be waited for
        return "a file that is no library"
    with open(path, "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        head = file.read(_HEADER.size)
        if not head:
            return "an empty file"
        if head[:4] != b"\x7fELF":
            return "a file that is no library"
        if len(head) < _HEADER.size:
            return f"{size_bytes} bytes, less than a library's header"
        _, wide, little, _, _, _, _, segments, sections, _, _, segment_bytes, count, section_bytes, section_count, _ = (
            _HEADER.unpack(head)
        )
        if (wide, little, segment_bytes) != (2, 1, _SEGMENT.size):
            return "a library of another kind of machine"
        whole_bytes = max(segments + count * segment_bytes, sections + section_count * section_bytes)
        if size_bytes >= whole_bytes:
            for _, _, offset, _, _, in_file_bytes, _, _ in _table(file, segments, count, _SEGMENT):
                whole_bytes = max(whole_bytes, offset + in_file_bytes)
        if size_bytes < whole_bytes:
            return f"{size_bytes} of a library's {whole_bytes} bytes"
        if sections and section_bytes == _SECTION.size:
            hole = _hole(file, list(_table(file, sections, section_count, _SECTION)), size_bytes)
            if hole is not None:
                return f"a library with nothing but zeros from byte {hole} on, where it has contents"
    return None


def _table(file: BinaryIO, start: int, count: int, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    file.seek(start)
    return entry.iter_unpack(file.read(count * entry.size))


def _hole(file: BinaryIO, sections: list[tuple[int, ...]], size_bytes: int) -> int | None:
    """Where a page of zeros begins that holds part of the code or of what the loader reads; a disk that was full or
    lost its power leaves such pages. None: there is none."""
    if len(sections) > 1 and not any(map(any, sections)):
        return size_bytes - len(sections) * _SECTION.size
    for _, kind, flags, _, start, section_bytes, _, _, _, _ in sections:
        if not (kind in _OF_LOADER or (kind == _PROGRAM and flags & _RUN)):
            continue
        end = min(start + section_bytes, size_bytes)
        first = start // _PAGE_BYTES * _PAGE_BYTES
        file.seek(first)
        held = file.read(max(end - first, 0) + _PAGE_BYTES)
        for page in range(first, end, _PAGE_BYTES):
            inside = min(end, page + _PAGE_BYTES) - max(start, page)
            if inside >= _LEAST_BYTES and not any(held[page - first : page - first + _PAGE_BYTES]):
                return page
    return None
