"""CRC-32C (Castagnoli) of a few bytes, as TFRecord files frame their records with it."""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78  # reversed


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecord: rotated, with a constant added, so that a checksum of checksums is no problem."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
