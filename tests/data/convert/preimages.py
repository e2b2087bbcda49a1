"""Texts with a wanted FarmHash Fingerprint64: the hash of 32 bytes can be run backwards."""

from __future__ import annotations

import random

_MASK = 2**64 - 1
_K1 = 0xB492B66FBE98F273
_K2 = 0x9AE16A3B2F90404F
_MULTIPLIER = (_K2 + 64) & _MASK  # for 32 bytes


def text_with_hash(wanted: int, seed: int) -> bytes:
    """32 bytes whose Fingerprint64 is `wanted`; another seed, other bytes."""
    draw = random.Random(seed)
    b, c, v = (draw.getrandbits(64) for _ in range(3))
    inverse = pow(_MULTIPLIER, -1, 2**64)
    # wanted = mixed(x) * m with x = (v ^ a) * m, and a = mixed((u ^ v) * m): solved for u.
    x = _unmixed(wanted * inverse & _MASK)
    a = (x * inverse & _MASK) ^ v
    u = (_unmixed(a) * inverse & _MASK) ^ v
    first = (v - _rotated(b + _K2, 18) - c) & _MASK
    d = (u - _rotated(first + b, 43) - _rotated(c, 30)) & _MASK
    words = (first * pow(_K1, -1, 2**64), b, d * pow(_K2, -1, 2**64), c * inverse)
    return b"".join((word & _MASK).to_bytes(8, "little") for word in words)


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value >> bits | value << (64 - bits)) & _MASK


def _unmixed(value: int) -> int:
    return value ^ value >> 47  # its own inverse: 2 * 47 bits are more than 64
