"""Small ORC files for tests, written and read back with pyorc, which the reader does not decode with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyorc

from data.files import open_input
from data.format.tail import column_id, read_tail, stripe_streams


def write(path: Path, schema: str, stripes: Iterable[Sequence[tuple]]) -> str:
    """Writes rows with one ORC stripe for each of `stripes`."""
    # Rows that are not yet a batch of the writer would move on to the next stripe, hence batch_size=1.
    zstd = pyorc.CompressionKind.ZSTD
    with open(path, "wb") as file, pyorc.Writer(file, schema, batch_size=1, compression=zstd) as writer:
        for number, rows in enumerate(stripes):
            if number:
                writer.write_intermediate_footer()
            writer.writerows(rows)
    return str(path)


def numbered(path: Path, stripe_rows: Sequence[int], start: int = 0) -> str:
    """Rows `(id bigint, score float, items array<bigint>)` made from the ids `start`, `start + 1`, …"""
    stripes = []
    for rows in stripe_rows:
        stripes.append([numbered_row(i) for i in range(start, start + rows)])
        start += rows
    return write(path, "struct<id:bigint,score:float,items:array<bigint>>", stripes)


def numbered_row(i: int) -> tuple[int, float, list[int]]:
    """The row of `numbered` with id `i`; every fourth list is empty."""
    return i, i / 4, list(range(i, i + i % 4))


def read(path: str) -> list[tuple]:
    """All rows, by pyorc."""
    with open(path, "rb") as file:
        return list(pyorc.Reader(file))


def stripe_rows(path: str) -> list[int]:
    """Rows of each stripe, by pyorc."""
    with open(path, "rb") as file:
        return [len(stripe) for stripe in pyorc.Reader(file).iter_stripes()]


def damage_stripe(path: str, index: int) -> None:
    """Overwrites the data of one stripe; the footer stays whole."""
    with open(path, "r+b") as file:
        stripe = pyorc.Reader(file).read_stripe(index)
        offset, length = stripe.bytes_offset, stripe.bytes_length
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * length)


def damage_column(path: str, index: int, name: str) -> None:
    """Overwrites the data of one column of one stripe; indexes and footers stay whole."""
    with open_input(path) as file:
        tail = read_tail(file, path)
        column = column_id(tail, name)
        streams = [s for s in stripe_streams(file, tail, index) if s.column == column and not s.is_index]
    with open(path, "r+b") as file:
        for stream in streams:
            file.seek(stream.offset)
            file.write(b"\xa5" * stream.bytes)
