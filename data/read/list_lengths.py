"""The lengths of lists in files without checksums, looked at before a decoder in the trainer's own process is.

Arrow's ORC decoder believes the lengths: a negative one, which only damage makes, lets it read memory that is not its
own. They are run-length encoded integers in a stream of their own (ORC specification v1, "Integer Run Length
Encoding").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from data.columns import Column
from data.errors import DataError
from data.files import open_input
from data.format import blocks as orc_blocks
from data.format import messages as orc_messages
from data.format.checksums import load
from data.format.tail import Tail, column_id, read_stripe_footer, read_tail
from data.read.stripes import Part

MOST_VALUES = 2**31 - 1
"""Of one column in one stripe: what Arrow's list arrays can hold."""
_LARGEST_STREAM_BYTES = 1 << 28
_DIRECT, _DIRECT_V2 = 0, 2  # encodings of a list column: which run-length encoding its lengths have
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)


class LengthsError(ValueError):
    """Bytes that are no run-length encoded integers."""


def check(parts: Sequence[Part], columns: Sequence[Column], verify: bool) -> None:
    """Looks at the lengths of the list columns of all stripes of `parts` in files without checksums (all files without
    `verify`). Raises `DataError` that names file, stripe and column."""
    names = [column.name for column in columns if column.kind == "int64_list"]
    if not names:
        return
    stripes: dict[str, set[int]] = {}
    for part in parts:
        stripes.setdefault(part.stripe.path, set()).add(part.stripe.index)
    for path, numbers in stripes.items():
        try:
            _check_file(path, sorted(numbers), names, verify)
        except _WrongLengths:
            raise
        except (DataError, OSError):
            continue  # other damage is left to the reader, which tells it without harm


def _check_file(path: str, stripes: Sequence[int], names: Sequence[str], verify: bool) -> None:
    with open_input(path) as file:
        tail = read_tail(file, path)
        if verify and load(file, tail) is not None:
            return
        for stripe in stripes:
            for name in names:
                _check(file, tail, stripe, name)


def _check(file: pa.NativeFile, tail: Tail, stripe: int, name: str) -> None:
    column = column_id(tail, name)
    total = 0
    try:
        for stream in read_stripe_footer(file, tail, stripe).streams:
            if (stream.kind, stream.column) == ("LENGTH", column):
                content = file.read_at(stream.bytes, stream.offset)
                content = orc_blocks.decompress(content, tail.codec, tail.block_bytes, _LARGEST_STREAM_BYTES)
                for run in runs(content, _encoding(file, tail, stripe, column)):
                    if run.size and int(run.min()) < 0:
                        raise _wrong(tail, stripe, name, f"a list of {run.min()} values")
                    total += int(run.sum(dtype=np.float64))
                    if total > MOST_VALUES:
                        raise _wrong(tail, stripe, name, f"lists of {total} values together")
    except _WrongLengths:
        raise
    except (orc_blocks.BlockError, LengthsError, DataError):
        return  # as above


class _WrongLengths(DataError):
    pass


def _wrong(tail: Tail, stripe: int, name: str, found: str) -> DataError:
    return _WrongLengths(
        f"{tail.path}: stripe {stripe}: column {name}: expected the lengths of its lists, found damage ({found})"
    )


def _encoding(file: pa.NativeFile, tail: Tail, stripe: int, column: int) -> int:
    info = tail.stripes[stripe]
    content = file.read_at(info.footer_bytes, info.footer_offset)
    decoded = orc_blocks.decompress(content, tail.codec, tail.block_bytes, _LARGEST_STREAM_BYTES)
    columns = orc_messages.parse("StripeFooter", decoded).columns
    if column >= len(columns):
        raise LengthsError("no encoding of the column")
    return int(columns[column].kind)


def runs(content: bytes, encoding: int) -> Iterator[np.ndarray]:
    """The runs of unsigned integers in `content`, each as int64 `[values]`: numbers of 2**63 and more are negative.

    Raises `LengthsError` for another encoding than the two of lists, and for a run that is cut short.
    """
    decode = {_DIRECT: _run, _DIRECT_V2: _run_v2}.get(encoding)
    if decode is None:
        raise LengthsError(f"encoding number {encoding}")
    position = 0
    while position < len(content):
        try:
            run, position = decode(content, position)
        except IndexError as error:
            raise LengthsError(f"a run that is cut short at byte {position}") from error
        yield run


def _run(content: bytes, position: int) -> tuple[np.ndarray, int]:
    control = content[position]
    position += 1
    if control < 128:
        delta = content[position] - 256 if content[position] > 127 else content[position]
        base, position = _varint(content, position + 1)
        return _int64([base + delta * k for k in range(control + 3)]), position
    values = []
    for _ in range(256 - control):
        value, position = _varint(content, position)
        values.append(value)
    return _int64(values), position


def _run_v2(content: bytes, position: int) -> tuple[np.ndarray, int]:
    first = content[position]
    kind = first >> 6
    if kind == 0:  # short repeat
        width = (first >> 3 & 7) + 1
        value = int.from_bytes(_bytes(content, position + 1, width), "big")
        return _int64([value] * ((first & 7) + 3)), position + 1 + width
    code = first >> 1 & 31
    count = (first & 1) << 8 | content[position + 1]
    position += 2
    if kind == 1:  # direct
        return _packed(content, position, _WIDTHS[code], count + 1)
    if kind == 2:
        return _patched(content, position, _WIDTHS[code], count + 1)
    base, position = _varint(content, position)
    zigzag, position = _varint(content, position)
    step = (zigzag >> 1) ^ -(zigzag & 1)
    if not code:
        return _int64([base + step * k for k in range(count + 1)]), position
    deltas, position = _packed(content, position, _WIDTHS[code], count - 1)
    steps = np.concatenate([_int64([base, step]), -deltas if step < 0 else deltas])
    with np.errstate(over="ignore"):
        return np.cumsum(steps[: count + 1]), position


def _patched(content: bytes, position: int, width: int, count: int) -> tuple[np.ndarray, int]:
    """Values above a base, of which a few have further bits in a list of patches: (gap to the patch before, bits)."""
    base_bytes, patch_code = (content[position] >> 5) + 1, content[position] & 31
    gap_bits, patches = (content[position + 1] >> 5) + 1, content[position + 1] & 31
    base = int.from_bytes(_bytes(content, position + 2, base_bytes), "big")
    sign = 1 << (8 * base_bytes - 1)
    if base & sign:
        base = -(base ^ sign)
    values, position = _packed(content, position + 2 + base_bytes, width, count)
    patch_bits = _WIDTHS[patch_code]
    entry_bits = next((bits for bits in _WIDTHS if bits >= gap_bits + patch_bits), 0)
    if not entry_bits:
        raise LengthsError(f"patches of {gap_bits + patch_bits} bits")
    entries, position = _packed(content, position, entry_bits, patches)
    place = 0
    result = values.tolist()
    for entry in entries.tolist():
        entry &= 2**64 - 1
        place += entry >> patch_bits & ((1 << gap_bits) - 1)
        result[place] |= (entry & ((1 << patch_bits) - 1)) << width
    return _int64([base + value for value in result]), position


def _packed(content: bytes, position: int, width: int, count: int) -> tuple[np.ndarray, int]:
    """`count` big-endian integers of `width` bits, and the position after them."""
    if count <= 0:
        return np.zeros(0, np.int64), position
    size = -(-count * width // 8)
    bits = np.unpackbits(np.frombuffer(_bytes(content, position, size), np.uint8))[: count * width]
    padded = np.zeros((count, 64), np.uint8)
    padded[:, 64 - width :] = bits.reshape(count, width)
    return np.packbits(padded, axis=1).view(">i8").ravel().astype(np.int64), position + size


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position
        if shift > 63:
            raise LengthsError("a number of more than 64 bits")


def _bytes(content: bytes, start: int, size: int) -> bytes:
    if start + size > len(content):
        raise IndexError
    return content[start : start + size]


def _int64(values: Sequence[int]) -> np.ndarray:
    """The lowest 64 bits of each, as C++ has them."""
    return np.array([value & (2**64 - 1) for value in values], np.uint64).view(np.int64)
