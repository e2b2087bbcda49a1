"""Writing one ORC file: Arrow batches in, a whole file or none out.

The columns are encoded by `pyarrow.orc`: it takes Arrow batches as they are, while pyorc takes a Python
tuple a row, which costs more than the encoding itself. What pyarrow cannot do is user metadata in the
footer; that is added when the file is closed. ORC's footer is a run of compressed blocks that decode to
one protobuf message, and protobuf messages merge by concatenation: so one more, uncompressed, block
with the metadata field is appended to the footer and the footer's length in the postscript is corrected
(ORC specification v1, "File Tail").
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import orc

# 15 to 20 thousand rows of two dozen columns a stripe: enough for the encodings, and several stripes to
# share out and shuffle. Blocks above 64 KiB saved nothing at this stripe size, and a stripe only counts
# blocks that are full.
STRIPE_BYTES = 1 << 19
BLOCK_BYTES = 1 << 16

_WIRE_VARINT, _WIRE_BYTES = 0, 2
_FOOTER_METADATA = 5
_POSTSCRIPT_FOOTER_LENGTH = 1


class OrcWriter:
    """Writes `path`; the file appears under that name on `close()`, complete, or never.

    Leaving a `with` block by an exception, or `discard()`, removes what was written.
    """

    def __init__(self, path: str, schema: pa.Schema, metadata: Mapping[str, str] | None = None):
        self.path = path
        self.rows = 0
        self._schema = schema
        self._metadata = dict(metadata or {})
        self._beside = f"{path}.{os.getpid()}.partial"
        self._closed = False
        self._sink = _Sink(self._beside)
        self._writer = orc.ORCWriter(
            self._sink,
            stripe_size=STRIPE_BYTES,
            compression="zstd",
            compression_block_size=BLOCK_BYTES,
            compression_strategy="compression",
        )

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Appends rows; their schema must equal the file's."""
        if not batch.schema.equals(self._schema):
            raise ValueError(f"{self.path}: expected a batch of {self._schema}, found {batch.schema}")
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        if table.num_rows:
            self._writer.write(table)
            self.rows += table.num_rows

    def close(self) -> None:
        """Finishes the file, adds the metadata, syncs it to disk and gives it its name."""
        if self._closed:
            return
        try:
            if not self.rows:  # pyarrow learns the schema from the first table
                self._writer.write(self._schema.empty_table())
            self._writer.close()
            self._sink.finish()
            add_metadata(self._beside, self._metadata)
            with open(self._beside, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(self._beside, self.path)
        except BaseException:
            self.discard()
            raise
        self._closed = True

    def discard(self) -> None:
        """Removes what was written; the name stays free."""
        if self._closed:
            return
        self._closed = True
        self._sink.abandon()
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            self._writer.close()
        with contextlib.suppress(OSError):
            os.unlink(self._beside)

    def __enter__(self) -> OrcWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class _Sink(io.RawIOBase):
    """The file as pyarrow's writer sees it: after the first failure it takes and drops everything.

    The C++ writer writes its tail when it is freed, and ends the process when that fails; so it must
    see an error only once.
    """

    def __init__(self, path: str):
        self._file: BinaryIO | None = open(path, "wb")  # noqa: SIM115 - closed by finish() or abandon()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if self._file is not None:
            try:
                self._file.write(data)
            except OSError:
                self.abandon()
                raise
        return len(data)

    def finish(self) -> None:
        """Writes out what is buffered and closes the file; raises OSError when that fails."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def abandon(self) -> None:
        """Closes the file, whatever comes."""
        with contextlib.suppress(OSError):
            self.finish()


def add_metadata(path: str, metadata: Mapping[str, str]) -> None:
    """Adds user metadata to the footer of a compressed ORC file, in place: for files nobody reads yet."""
    if not metadata:
        return
    message = b"".join(
        _field(_FOOTER_METADATA, _field(1, name.encode()) + _field(2, value.encode()))
        for name, value in metadata.items()
    )
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size - 1)
        postscript_length = file.read(1)[0]
        file.seek(size - 1 - postscript_length)
        postscript = file.read(postscript_length)
        file.seek(size - 1 - postscript_length)
        added = _uncompressed_blocks(message)
        changed = _with_longer_footer(postscript, len(added))
        file.write(added + changed + bytes([len(changed)]))


def _uncompressed_blocks(content: bytes) -> bytes:
    """Blocks with a 3-byte little-endian header `length * 2 + 1`; the last bit says "not compressed"."""
    size = BLOCK_BYTES
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    return b"".join((len(piece) * 2 + 1).to_bytes(3, "little") + piece for piece in pieces)


def _with_longer_footer(postscript: bytes, added_bytes: int) -> bytes:
    """The postscript with `added_bytes` more in its footer length; every other field as it was."""
    result = b""
    position = 0
    while position < len(postscript):
        start = position
        key, position = _read_varint(postscript, position)
        number, wire = key >> 3, key & 7
        value, position = _read_varint(postscript, position)
        if wire == _WIRE_BYTES:
            position += value
        elif wire != _WIRE_VARINT:
            raise ValueError(f"unexpected wire type {wire} in an ORC postscript")
        if number == _POSTSCRIPT_FOOTER_LENGTH:
            result += _varint(key) + _varint(value + added_bytes)
        else:
            result += postscript[start:position]
    return result


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _WIRE_BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
