"""What the ops compute, once more in NumPy: hash, owner, initial values."""

from __future__ import annotations

import hashlib

import numpy as np

_MASK = (1 << 64) - 1


def mix64(x: int) -> int:
    """Finaliser of MurmurHash3 on Python's integers."""
    x &= _MASK
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & _MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & _MASK
    return x ^ x >> 33


def hash_key(key: int, salt: int) -> int:
    return mix64(key + mix64(salt))


def owner_of(key: int, salt: int, num_ps: int) -> int:
    return (hash_key(key, salt) >> 32) * num_ps >> 32


def salt_of(table: str) -> int:
    number = int.from_bytes(hashlib.sha256(table.encode()).digest()[:8], "little")
    return number - (1 << 64) if number >> 63 else number


def unit_floats(key: int, salt: int, seed: int, count: int) -> np.ndarray:
    """24 random bits each, as float64 in [0, 1)."""
    stream = hash_key(key, salt) ^ mix64(seed + 0x5851F42D4C957F2D)
    return np.array([(mix64(stream + 0x9E3779B97F4A7C15 * (j + 1)) >> 40) / 2.0**24 for j in range(count)])


def initial_value(kind: str, scale: float, seed: int, salt: int, key: int, dim: int) -> np.ndarray:
    """float32 `[dim]`."""
    if kind == "zeros":
        return np.zeros(dim, np.float32)
    if kind == "uniform":
        unit = unit_floats(key, salt, seed, dim).astype(np.float32)
        return np.float32(scale) * (np.float32(2) * unit - np.float32(1))
    pairs = unit_floats(key, salt, seed, 2 * dim).reshape(dim, 2)
    radius = np.sqrt(-2 * np.log(1 - pairs[:, 0]))
    return (np.float64(np.float32(scale)) * radius * np.cos(2 * np.pi * pairs[:, 1])).astype(np.float32)
