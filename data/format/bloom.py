"""ORC's bloom filters over numbers: whether a row group may hold a value."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

_LOW_64 = 2**64 - 1


@dataclass(frozen=True)
class BloomFilter:
    """The filter of one column in one row group (stream kind BLOOM_FILTER_UTF8)."""

    hashes: int
    """Bits that a value sets."""
    bits: bytes
    """A positive multiple of 8 bytes; bit k is bit k % 8 of byte k // 8."""


def might_contain_int(bloom: BloomFilter, value: int) -> bool:
    """Whether the integer `value` (int64) may be in the row group; False is certain."""
    key = _thomas_wang(value & _LOW_64)
    low, high = _signed_32(key), _signed_32(key >> 32)
    size = len(bloom.bits) * 8
    for k in range(1, bloom.hashes + 1):
        combined = _signed_32(low + k * high)
        position = (~combined if combined < 0 else combined) % size
        if not bloom.bits[position >> 3] >> (position & 7) & 1:
            return False
    return True


def might_contain_double(bloom: BloomFilter, value: float) -> bool:
    """Whether `value` may be in a row group of a float or double column; False is certain.

    A float column stores its values as doubles, so ask for the double that equals the stored float. Zeros have two bit
    patterns that compare equal: both are looked for. NaN, which equals nothing, is never there.
    """
    if value != value:
        return False
    if value == 0:
        return any(might_contain_int(bloom, _bits(zero)) for zero in (0.0, -0.0))
    return might_contain_int(bloom, _bits(value))


def _bits(value: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


def _signed_32(value: int) -> int:
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _shifted(key: int, bits: int) -> int:
    """Arithmetic shift to the right of a 64-bit number: the sign fills in."""
    return (key >> bits | (_LOW_64 << (64 - bits) if key >> 63 else 0)) & _LOW_64


def _thomas_wang(key: int) -> int:
    """Thomas Wang's hash of 64 bits, with the shifts of signed numbers that ORC's writers make."""
    key = (~key + (key << 21)) & _LOW_64
    key ^= _shifted(key, 24)
    key = key * 265 & _LOW_64
    key ^= _shifted(key, 14)
    key = key * 21 & _LOW_64
    key ^= _shifted(key, 28)
    return (key + (key << 31)) & _LOW_64


def all_might_be_there(bloom: BloomFilter, values: np.ndarray) -> bool:
    """Whether the filter admits each of `values`, int64 or float64 `[values]`, as it must those of its row group."""
    with np.errstate(over="ignore"):
        key = np.ascontiguousarray(values).view(np.int64)
        key = ~key + (key << 21)
        key ^= key >> 24
        key *= 265
        key ^= key >> 14
        key *= 21
        key ^= key >> 28
        key += key << 31
        low, high = key.astype(np.int32), (key >> 32).astype(np.int32)
        bits = np.frombuffer(bloom.bits, np.uint8)
        for k in range(1, bloom.hashes + 1):
            combined = low + np.int32(k) * high
            position = np.where(combined < 0, ~combined, combined).astype(np.int64) % (len(bits) * 8)
            if not (bits[position >> 3] >> (position & 7) & 1).all():
                return False
    return True
