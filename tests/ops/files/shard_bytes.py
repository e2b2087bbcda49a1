"""The format of a shard's file in plain Python, from the description in `ops/cc/files/shard_file.h`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROWS, REMOVED, BLOOM, END = 1, 2, 3, 4
_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data: bytes) -> int:
    """RFC 3720's CRC."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Part:
    """A block: its kind, the header's fields and its payload."""

    kind: int
    row_class: int
    hours: bool
    row_bytes: int
    count: int
    payload: bytes


def rows_part(row_class: int, keys: Sequence[int], meta: np.ndarray, rows: np.ndarray) -> Part:
    """meta: `[n, 3]`; rows: uint8 `[n, bytes]`."""
    hours = bool(meta[:, 2].any())
    columns = meta[:, : 3 if hours else 2].astype("<u4").T.tobytes()
    payload = np.array(keys, "<i8").tobytes() + columns + rows.tobytes()
    return Part(ROWS, row_class, hours, rows.shape[1], len(keys), payload)


def removed_part(keys: Sequence[int]) -> Part:
    return Part(REMOVED, 0, False, 0, len(keys), np.array(keys, "<i8").tobytes())


def bloom_part(segments: Sequence[tuple[int, bytes]]) -> Part:
    payload = b"".join(struct.pack("<II", index, len(counters)) + counters for index, counters in segments)
    return Part(BLOOM, 0, False, 0, len(segments), payload)


def pieces(text: str, parts: Sequence[Part], delta: bool = False) -> list[bytes]:
    """A file as its head, its blocks and its end."""
    raw = text.encode()
    head = b"PSCTABLE" + struct.pack("<III", 2, int(delta), len(raw)) + raw
    crc = crc32c(head)
    seed = struct.pack("<I", crc)
    made = [head + seed]
    seen = seed
    for number, part in enumerate([*parts, None]):
        if part is None:
            rows = sum(one.count for one in parts if one.kind == ROWS and one.row_class)
            counted = sum(one.count for one in parts if one.kind == ROWS and not one.row_class)
            removed = sum(one.count for one in parts if one.kind == REMOVED)
            bloom = sum(one.count for one in parts if one.kind == BLOOM)
            payload = struct.pack("<QQQQQII", len(parts), rows, counted, removed, bloom, crc32c(seen), 0)
            part = Part(END, 0, False, 0, 0, payload)
        fields = b"PSCB" + struct.pack(
            "<IBBBBIQQI",
            number,
            part.kind,
            part.row_class,
            int(part.hours),
            0,
            part.row_bytes,
            part.count,
            len(part.payload),
            crc32c(part.payload),
        )
        header = fields + struct.pack("<I", crc32c(seed + fields))
        seen += fields
        made.append(header + part.payload)
    return made


def parsed(content: bytes) -> tuple[str, bool, list[Part]]:
    """Text, whether it is a delta, blocks without the end; asserts that all is as `pieces` would have written it."""
    version, flags, size = struct.unpack("<III", content[8:20])
    assert (content[:8], version) == (b"PSCTABLE", 2)
    text = content[20 : 20 + size].decode()
    at = 24 + size
    parts = []
    while True:
        fields = struct.unpack("<IBBBBIQQII", content[at + 4 : at + 40])
        _, kind, row_class, hours, _, row_bytes, count, payload_bytes = fields[:8]
        payload = content[at + 40 : at + 40 + payload_bytes]
        at += 40 + payload_bytes
        if kind == END:
            break
        parts.append(Part(kind, row_class, bool(hours), row_bytes, count, payload))
    assert at == len(content)
    assert b"".join(pieces(text, parts, bool(flags))) == content
    return text, bool(flags), parts
