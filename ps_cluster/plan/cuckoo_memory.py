"""Bytes of TFRA's cuckoo table on one PS, from how libcuckoo lays it out and what a process was seen to take."""

from __future__ import annotations

import math

BUCKET_SLOTS = 4
FULL = 0.97
"""Share of slots in use at which an insertion finds no place and the table doubles."""
FIRST_CAPACITY = 8192
WIDEST_INLINE = 100
"""Rows of more float32 are allocated one by one."""
_MOST_LOCKS, _LOCK_BYTES = 2**16, 64


def cuckoo_bytes(rows: float, row_floats: float) -> float:
    """Buckets of four slots, each `8 + 4 * row_floats` bytes padded to 8, and 8 bytes a bucket; their number is a power
    of two that is at most 97 % full. The buckets from before the last doubling stay, half as many, and so do the locks
    of every doubling: 64 bytes a bucket, at most 4 MiB each time."""
    slots = 2.0 ** math.ceil(math.log2(max(rows / FULL, FIRST_CAPACITY)))
    buckets = slots / BUCKET_SLOTS
    doubled = 1.5 if slots > FIRST_CAPACITY else 1.0
    locks = _LOCK_BYTES * (2 * min(buckets, _MOST_LOCKS) + _MOST_LOCKS * max(math.log2(buckets / _MOST_LOCKS), 0))
    if row_floats > WIDEST_INLINE:  # the slot has a vector's three pointers, and malloc's header lies beside the row
        row = -(-(8 + 4 * row_floats) // 16) * 16 + 16
        return doubled * buckets * (BUCKET_SLOTS * 32 + 8) + rows * row + locks
    row = -(-(8 + 4 * row_floats) // 8) * 8
    return doubled * buckets * (BUCKET_SLOTS * row + 8) + locks
