"""Adding user metadata to the footer of an ORC file that is already written.

ORC's footer decodes to one protobuf message, and protobuf messages merge by concatenation: so a further piece with the
metadata field is appended to the footer, as blocks that are not compressed, and the footer's length in the postscript
is corrected (ORC specification v1, "File Tail").
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from data.format.blocks import raw_blocks
from data.format.tail import Tail

_WIRE_VARINT, _WIRE_BYTES = 0, 2
_FOOTER_METADATA = 5
_POSTSCRIPT_FOOTER_LENGTH = 1


def append_metadata(path: str, tail: Tail, metadata: Mapping[str, bytes], at: int | None = None) -> int:
    """Adds items to the footer of the file `path` with this tail, in place: for files that nobody reads yet.

    `at`: where in the file they go, if the footer is to be cut there first; by default at the footer's end. Returns the
    new end of the footer.
    """
    footer_end = tail.start + tail.metadata_bytes + tail.footer_bytes
    at = footer_end if at is None else at
    message = b"".join(
        _field(_FOOTER_METADATA, _field(1, name.encode("utf-8", "surrogateescape")) + _field(2, value))
        for name, value in metadata.items()
    )
    added = raw_blocks(message, tail.codec, tail.block_bytes)
    with open(path, "rb+") as file:
        file.seek(footer_end)
        postscript = _with_footer_bytes(
            file.read(tail.postscript_bytes), tail.footer_bytes + at - footer_end + len(added)
        )
        file.seek(at)
        file.write(added + postscript + bytes([len(postscript)]))
        file.truncate()
        file.flush()
    return at + len(added)


def sync(path: str) -> None:
    """Waits until the file's content is on the disk."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _with_footer_bytes(postscript: bytes, footer_bytes: int) -> bytes:
    """The postscript with another length of the footer; every other field as it was."""
    result = b""
    position = 0
    while position < len(postscript):
        start = position
        key, position = _read_varint(postscript, position)
        number, wire = key >> 3, key & 7
        value, position = _read_varint(postscript, position)
        if wire == _WIRE_BYTES:
            position += value
        elif wire != _WIRE_VARINT:
            raise ValueError(f"unexpected wire type {wire} in an ORC postscript")
        if number == _POSTSCRIPT_FOOTER_LENGTH:
            result += _varint(key) + _varint(footer_bytes)
        else:
            result += postscript[start:position]
    return result


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _WIRE_BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
