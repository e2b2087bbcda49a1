"""Random numbers as a function of (seed, stream, counter), so that row n is the same however rows are cut."""

from __future__ import annotations

import zlib

import numpy as np

_U64 = np.uint64


def uniform(seed: int, stream: str, counters: np.ndarray) -> np.ndarray:
    """Uniform numbers in [0, 1), float64, one for each counter; streams are unrelated. `seed` is below 2**32.

    The mixing is SplitMix64's finaliser (Steele, Lea, Flood 2014) over a Weyl sequence that starts at a mixed
    (seed, stream).
    """
    start = _mix(np.array([zlib.crc32(stream.encode()) + (seed << 32)], np.uint64))
    start = _mix(start + _U64(0x632BE59BD9B4E019))
    mixed = _mix(start + counters.astype(np.uint64) * _U64(0x9E3779B97F4A7C15))
    return (mixed >> _U64(11)).astype(np.float64) * 2.0**-53


def zipf(uniforms: np.ndarray, count: int, exponent: float) -> np.ndarray:
    """Ranks 1 to `count`, int64, with frequencies falling as about `rank ** -exponent`.

    The whole part of a bounded Pareto variable on [1, count + 1), by its inverse distribution function: no
    table, so any `count` costs the same. `exponent` must not be 1 exactly.
    """
    power = 1.0 - exponent
    values = (1.0 + uniforms * ((count + 1.0) ** power - 1.0)) ** (1.0 / power)
    return np.clip(values.astype(np.int64), 1, count)


def _mix(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> _U64(27))) * _U64(0x94D049BB133111EB)
    return values ^ (values >> _U64(31))
