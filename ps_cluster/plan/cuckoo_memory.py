"""Bytes of TFRA's cuckoo table on one PS, from how libcuckoo lays it out."""

from __future__ import annotations

import math

BUCKET_SLOTS = 4
FULL = 0.95
"""Share of slots in use at which an insertion finds no place and the table doubles."""
FIRST_CAPACITY = 8192
WIDEST_INLINE = 100
"""Rows of more float32 are allocated one by one."""
_LOCKS_BYTES = 2**16 * 64


def cuckoo_bytes(rows: float, row_floats: float) -> float:
    """Buckets of four slots, each `8 + 4 * row_floats` bytes padded to 8, and 8 bytes a bucket; their number is a power
    of two that is at most 95 % full. While it doubles, the old buckets are there too: half as much again."""
    slots = 2 ** math.ceil(math.log2(max(rows / FULL, FIRST_CAPACITY)))
    if row_floats > WIDEST_INLINE:  # a vector of its own: its three pointers in the slot, malloc's header beside it
        row = -(-(8 + 4 * row_floats) // 16) * 16 + 16
        return slots / BUCKET_SLOTS * (BUCKET_SLOTS * 32 + 8) + rows * row + _LOCKS_BYTES
    row = -(-(8 + 4 * row_floats) // 8) * 8
    return slots / BUCKET_SLOTS * (BUCKET_SLOTS * row + 8) + _LOCKS_BYTES
