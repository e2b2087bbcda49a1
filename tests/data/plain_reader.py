"""How samples are read, row by row in plain Python over pyorc: what every reader's batches are compared with.

Nothing here uses the package but its descriptions of what to read (`ReadSpec`, `Column`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyorc

from data.columns import Column
from data.read.read_spec import ReadSpec

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15

Row = dict[str, Any]


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key(seed: int, epoch: int, stream: int) -> int:
    k = mix((seed + GOLDEN) & MASK)
    k = mix((k + epoch * GOLDEN + 1) & MASK)
    return mix((k + stream * GOLDEN + 2) & MASK)


def permutation(n: int, k: int) -> list[int]:
    return sorted(range(n), key=lambda i: (mix((k + (i + 1) * GOLDEN) & MASK), i))


@dataclass
class Reading:
    """The epochs of one shard: rows in order, and the batches with what they count."""

    rows: list[list[tuple]] = field(default_factory=list)
    batches: list[tuple[int, list[tuple], list[int]]] = field(default_factory=list)
    """(epoch, rows, [rows lost, nulls filled of each column])"""


@dataclass
class Piece:
    rows: list[tuple]
    counts: list[int]


def stripes_of(path: str) -> list[list[Row]]:
    """All rows of a file as dicts, by stripe."""
    with open(path, "rb") as file:
        reader = pyorc.Reader(file, struct_repr=pyorc.StructRepr.DICT)
        return [list(stripe) for stripe in reader.iter_stripes()]


def deal(ranges: Sequence[tuple[Any, int, int]], shard: int, num_shards: int) -> list[tuple[Any, int, int]]:
    """(stripe, start, rows) of one shard: each range goes to the shard that still lacks most, the first of equals."""
    total = sum(rows for *_, rows in ranges)
    lacking = [total * (i + 1) // num_shards - total * i // num_shards for i in range(num_shards)]
    mine = []
    for stripe, start, rows in ranges:
        while rows:
            receiver = lacking.index(max(lacking))
            taken = min(rows, lacking[receiver])
            if receiver == shard:
                mine.append((stripe, start, taken))
            lacking[receiver] -= taken
            start, rows = start + taken, rows - taken
    return mine


def read_plainly(
    spec: ReadSpec,
    keep: Callable[[Row], bool] = lambda row: True,
    lost_stripes: Sequence[tuple[str, int]] = (),
    ranges: Sequence[tuple[str, int, int, int]] | None = None,
    damaged: str = "",
) -> Reading:
    """Everything that reading `spec` gives, from the first row of the first epoch.

    `keep` stands for `spec.where`; sampling is not known here. `lost_stripes`: (path, stripe) whose column
    `damaged` cannot be decoded.
    `ranges`: (path, stripe, start, rows) left after pruning; by default all.
    """
    stripes = {(path, i): rows for path in spec.paths for i, rows in enumerate(stripes_of(path))}
    if ranges is None:
        ranges = [(path, i, 0, len(rows)) for (path, i), rows in stripes.items() if rows]
    dealt = deal([((path, i), start, rows) for path, i, start, rows in ranges], spec.shard, spec.num_shards)
    turns = spec.stripe_slices if spec.shuffle_rows else 1
    parts = [
        (stripe, stripes[stripe][start : start + rows][turn::turns])
        for stripe, start, rows in dealt
        for turn in range(min(turns, rows))
    ]
    reading = Reading()
    pending = [0] * (1 + len(spec.columns))
    for epoch in range(spec.epochs):
        pieces = []
        for number, start, rows in pieces_of([len(part) for _, part in parts], spec, epoch):
            stripe, part = parts[number]
            # The columns of the condition are decoded for every part, the others where a row of it is kept.
            lost = stripe in lost_stripes and (damaged in spec.filter_columns or any(map(keep, part)))
            pieces.append(piece_of(part[start : start + rows], spec, keep, lost))
        windows = list(windows_of(pieces, spec, epoch))
        reading.rows.append([row for window in windows for row in window.rows])
        reading.batches += batches_of(windows, spec, epoch, pending)
    return reading


def pieces_of(part_rows: Sequence[int], spec: ReadSpec, epoch: int) -> Iterator[tuple[int, int, int]]:
    if not spec.shuffle_rows:
        yield from ((number, 0, rows) for number, rows in enumerate(part_rows))
        return
    order = permutation(len(part_rows), key(spec.seed, epoch, 0))
    for at in range(0, len(order), spec.interleave_stripes):
        group = order[at : at + spec.interleave_stripes]
        g = len(group)
        for c in range(g):
            for number in group:
                r = part_rows[number]
                start, end = r * c // g, r * (c + 1) // g
                if start < end:
                    yield number, start, end - start


def piece_of(rows: Sequence[Row], spec: ReadSpec, keep: Callable[[Row], bool], lost: bool) -> Piece:
    if lost:
        return Piece([], [len(rows)] + [0] * len(spec.columns))
    counts = [0] * (1 + len(spec.columns))
    kept = []
    for row in filter(keep, rows):
        values = [canonical(row[column.name], column) for column in spec.columns]
        if None in values:
            assert spec.on_bad == "skip"
            counts[0] += 1
            continue
        for number, column in enumerate(spec.columns):
            counts[1 + number] += row[column.name] is None
        kept.append(tuple(values))
    return Piece(kept, counts)


def canonical(value: Any, column: Column) -> Any:
    """The value as the trainer gets it; None when it is wrong."""
    if value is None:
        return (() if column.kind == "int64_list" else column.missing) if column.missing is not None else None
    if column.kind == "int64_list":
        return None if None in value else tuple(value[-column.max_length :] if column.max_length else value)
    if column.kind == "float32" and not math.isfinite(value):
        return None
    return value


def windows_of(pieces: Sequence[Piece], spec: ReadSpec, epoch: int) -> Iterator[Piece]:
    if not spec.shuffle_rows:
        yield from pieces
        return
    number = 0
    rows: list[tuple] = []
    counts = [0] * (1 + len(spec.columns))

    def shuffled(window: list[tuple]) -> list[tuple]:
        order = permutation(len(window), key(spec.seed, epoch, 1 + number))
        return [window[i] for i in order]

    for piece in pieces:
        counts = [a + b for a, b in zip(counts, piece.counts)]
        rows += piece.rows
        while len(rows) >= spec.shuffle_rows:
            yield Piece(shuffled(rows[: spec.shuffle_rows]), counts)
            rows, counts, number = rows[spec.shuffle_rows :], [0] * len(counts), number + 1
    yield Piece(shuffled(rows), counts)


def batches_of(
    windows: Sequence[Piece], spec: ReadSpec, epoch: int, pending: list[int]
) -> Iterator[tuple[int, list[tuple], list[int]]]:
    """The epoch's batches; `pending` are counts that no batch has taken yet, before and after."""
    rows = [row for window in windows for row in window.rows]
    ends = [sum(len(window.rows) for window in windows[: i + 1]) for i in range(len(windows))]
    formed = 0
    for at in range(0, len(rows), spec.batch_rows):
        batch = rows[at : at + spec.batch_rows]
        if len(batch) < spec.batch_rows and spec.drop_remainder:
            break
        # A batch that uses up its window, or crosses into another, waits for the next window that has rows.
        while formed < len(windows) and ends[formed] <= at + len(batch):
            pending[:] = [a + b for a, b in zip(pending, windows[formed].counts)]
            formed += 1
        if formed < len(windows):
            pending[:] = [a + b for a, b in zip(pending, windows[formed].counts)]
            windows[formed].counts[:] = [0] * len(pending)
        yield epoch, batch, list(pending)
        pending[:] = [0] * len(pending)
    for window in windows[formed:]:
        pending[:] = [a + b for a, b in zip(pending, window.counts)]
