"""Order of scores as integers: a 32-bit key that compares as the float32 does."""

from __future__ import annotations

import numpy as np

_SIGN_BIT = np.int32(-(2**31))
_MAGNITUDE_BITS = np.int32(2**31 - 1)


def score_keys(scores: np.ndarray) -> np.ndarray:
    """Keys of float32 scores `[n]` as int32 `[n]`: they compare, and are equal, exactly as the scores do.

    Works on the bit patterns alone, so that ±inf and subnormal numbers keep their places whatever rounding or
    flush-to-zero mode the process is in; -0.0 gets the key of 0.0. A nan has no place: the caller sorts it
    out first.
    """
    bits = np.ascontiguousarray(scores, np.float32).view(np.int32)
    keys = np.where(bits < 0, bits ^ _MAGNITUDE_BITS, bits)
    keys[bits == _SIGN_BIT] = 0
    return keys
