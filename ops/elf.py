"""Whether a shared library's file is whole: loading one that was cut short kills the process (SIGBUS)."""

from __future__ import annotations

import os
import struct

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")  # of a 64-bit ELF file
_SEGMENT = struct.Struct("<IIQQQQQQ")


def damage(path: str) -> str | None:
    """What is found at `path` in place of a whole library, in words; None where nothing is wrong to be seen.

    Raises:
      OSError: the file cannot be read.
    """
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
        file.seek(segments)
        table = file.read(count * segment_bytes)
    whole_bytes = max(segments + count * segment_bytes, sections + section_count * section_bytes)
    for start in range(0, len(table) - segment_bytes + 1, segment_bytes):
        _, _, offset, _, _, in_file_bytes, _, _ = _SEGMENT.unpack_from(table, start)
        whole_bytes = max(whole_bytes, offset + in_file_bytes)
    if size_bytes < whole_bytes:
        return f"{size_bytes} of a library's {whole_bytes} bytes"
    return None
