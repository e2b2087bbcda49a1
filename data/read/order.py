"""The order of a read: which rows of which part come when, as pure functions of (seed, epoch, row counts).

Parts are taken in a random order, in groups of `interleave`; the parts of a group are cut into as many chunks as it has
parts, and the chunks come in turns. The rows so lined up are cut into windows, and a window's rows come in a random
order. With 5 parts of 4 rows each (a, b, …), `interleave` 2, and parts in the order c a e b d:

    group c a           group e b           group d
    c0 c1 a0 a1 c2 c3 a2 a3   e0 e1 b0 b1 e2 e3 b2 b3   d0 d1 d2 d3
    └──── window 0 ────────┘└──── window 1 ──────────┘└ window 2 ┘    each in an order of its own

All of it is integer arithmetic modulo 2**64 on top of SplitMix64's finaliser (Steele, Lea, Flood 2014), so that another
language finds the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_U64 = np.uint64
GOLDEN = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio, odd: the step of a sequence whose members are far apart."""
_MASK = 2**64 - 1

PARTS = 0
"""Stream of the order of the parts of an epoch."""
FIRST_WINDOW = 1
"""Stream of the order of an epoch's first window; window w has stream `FIRST_WINDOW + w`."""


def mix(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser of uint64 numbers: a bijection that spreads every bit over all bits."""
    values = (values ^ (values >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> _U64(27))) * _U64(0x94D049BB133111EB)
    return values ^ (values >> _U64(31))


def key(seed: int, epoch: int, stream: int) -> int:
    """The key (below 2**64) that one permutation of a read is drawn with."""
    k = _mix_one(seed + GOLDEN)
    k = _mix_one(k + epoch * GOLDEN + 1)
    return _mix_one(k + stream * GOLDEN + 2)


def permutation(n: int, k: int) -> np.ndarray:
    """A random order int64 `[n]` of 0 to n - 1: those numbers sorted by (mix(k + (number + 1) * GOLDEN), number)."""
    numbers = np.arange(1, n + 1, dtype=np.uint64)
    # No two keys are equal: an odd factor, a sum and `mix` are bijections.
    return np.argsort(mix(_U64(k) + numbers * _U64(GOLDEN)))


def window_order(rows: int, seed: int, epoch: int, window: int) -> np.ndarray:
    """The order int64 `[rows]` of shuffle window number `window` of an epoch: output row j is its row `order[j]`."""
    return permutation(rows, key(seed, epoch, FIRST_WINDOW + window))


def epoch_order(parts: int, seed: int, epoch: int) -> np.ndarray:
    """The order int64 `[parts]` of the parts of a shuffled epoch; `interleave` neighbours in it are a group."""
    return permutation(parts, key(seed, epoch, PARTS))


def file_pieces(part_rows: Sequence[int] | np.ndarray) -> np.ndarray:
    """The pieces of an epoch that is not shuffled: the parts as they are, int64 `[parts, 3]` as `epoch_pieces`."""
    rows = np.asarray(part_rows, np.int64)
    return np.stack([np.arange(len(rows)), np.zeros_like(rows), rows], axis=1)


def epoch_pieces(part_rows: Sequence[int] | np.ndarray, seed: int, epoch: int, interleave: int) -> np.ndarray:
    """The pieces of a shuffled epoch, in order: int64 `[pieces, 3]`, each (number of the part, first row in the part,
    rows). Every row of every part lies in one piece; no piece is empty.

    Args:
      part_rows: rows of each part.
      interleave: parts that take turns; 1: a part comes as a whole.
    """
    rows = np.asarray(part_rows, np.int64)
    order = epoch_order(len(rows), seed, epoch)
    whole = len(order) // interleave * interleave
    groups = [order[:whole].reshape(-1, interleave)]
    if whole < len(order):
        groups.append(order[whole:].reshape(1, -1))
    pieces = np.concatenate([_chunks(group, rows[group]) for group in groups])
    return pieces[pieces[:, 2] > 0]


def _chunks(parts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The pieces of groups of equal size: `[groups, size]` part numbers and rows to `[groups * size * size, 3]`."""
    size = parts.shape[1]
    cuts = rows[:, None, :] * np.arange(size + 1)[None, :, None] // max(size, 1)  # [groups, chunk, part of the group]
    starts = cuts[:, :-1]
    numbers = np.broadcast_to(parts[:, None, :], starts.shape)
    return np.stack([numbers, starts, cuts[:, 1:] - starts], axis=-1).reshape(-1, 3)


def _mix_one(value: int) -> int:
    return int(mix(np.array([value & _MASK], np.uint64))[0])
