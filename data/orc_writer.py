"""Writing one ORC file: Arrow batches in, a whole file or none out.

The columns are encoded by `pyarrow.orc`: it takes Arrow batches as they are, while pyorc takes a Python
tuple a row, which costs more than the encoding itself. What pyarrow cannot do is user metadata in the
footer; that, and with it the checksums, is added when the file is closed.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Literal

import pyarrow as pa
from pyarrow import orc

from data.checksums import add_metadata
from data.orc_footer import sync


@dataclass(frozen=True)
class Settings:
    """How a file is encoded. Raises `ValueError` for values that make no sense."""

    codec: Literal["zstd", "zlib", "snappy", "lz4", "none"] = "zstd"
    stripe_bytes: int = 1 << 19
    """Encoded size at which a stripe ends. The default gives 15 to 20 thousand rows of two dozen columns: enough for
    the encodings, and several stripes to share out and shuffle. Only blocks that are full count."""
    block_bytes: int = 1 << 16
    """Most bytes that are compressed as one; a multiple of 64 KiB. More saved nothing at the default stripe size."""
    row_index_stride: int = 10_000
    """Rows of a row group, the smallest unit that `where` can skip."""
    strategy: Literal["compression", "speed"] = "compression"
    bloom_columns: tuple[str, ...] = ()
    """Columns of numbers with a bloom filter in each row group."""
    bloom_fpp: float = 0.05
    """Share of wrong positives of those."""

    def __post_init__(self) -> None:
        if self.codec not in ("zstd", "zlib", "snappy", "lz4", "none"):
            raise ValueError(f"codec: expected one of zstd, zlib, snappy, lz4, none; found {self.codec!r}")
        if self.strategy not in ("compression", "speed"):
            raise ValueError(f"strategy: expected compression or speed, found {self.strategy!r}")
        for field in ("stripe_bytes", "row_index_stride"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: expected at least 1, found {getattr(self, field)}")
        if self.block_bytes % (1 << 16) or not 0 < self.block_bytes < 1 << 23:
            raise ValueError(f"block_bytes: expected a multiple of 65,536 below 8 MiB, found {self.block_bytes}")
        if not 0 < self.bloom_fpp < 1:
            raise ValueError(f"bloom_fpp: expected a number above 0 and below 1, found {self.bloom_fpp}")


class OrcWriter:
    """Writes `path`; the file appears under that name on `close()`, complete, or never.

    Leaving a `with` block by an exception, or `discard()`, removes what was written.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        metadata: Mapping[str, str] | None = None,
        settings: Settings = Settings(),
    ):
        bloom_ids = _type_ids(path, schema, settings.bloom_columns)
        self.path = path
        self.rows = 0
        self._schema = schema
        self._metadata = dict(metadata or {})
        self._beside = f"{path}.{os.getpid()}.partial"
        self._closed = False
        self._sink = _Sink(self._beside)
        self._writer = orc.ORCWriter(
            self._sink,
            stripe_size=settings.stripe_bytes,
            compression="uncompressed" if settings.codec == "none" else settings.codec,
            compression_block_size=settings.block_bytes,
            compression_strategy=settings.strategy,
            row_index_stride=settings.row_index_stride,
            bloom_filter_columns=bloom_ids or None,
            bloom_filter_fpp=settings.bloom_fpp,
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
        """Finishes the file, adds metadata and checksums, syncs it to disk and gives it its name."""
        if self._closed:
            return
        try:
            if not self.rows:  # pyarrow learns the schema from the first table
                self._writer.write(self._schema.empty_table())
            self._writer.close()
            self._sink.finish()
            add_metadata(self._beside, self._metadata)
            sync(self._beside)
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


def _type_ids(path: str, schema: pa.Schema, names: tuple[str, ...]) -> list[int]:
    """ORC type ids of top-level columns of numbers: a pre-order count of the schema's nodes, from the root, 0."""
    ids: dict[str, tuple[int, pa.DataType]] = {}
    number = 1
    for field in schema:
        ids.setdefault(field.name, (number, field.type))
        number += _nodes(field.type)
    result = []
    for name in names:
        if name not in ids:
            raise ValueError(f"{path}: bloom_columns: expected columns of the file, found {name}")
        number, kind = ids[name]
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise ValueError(f"{path}: bloom_columns: expected columns of numbers, found {name} of type {kind}")
        result.append(number)
    return result


def _nodes(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):  # in Arrow a list of structs, in ORC a type of two parts
        return 1 + _nodes(kind.key_type) + _nodes(kind.item_type)
    return 1 + sum(_nodes(kind.field(k).type) for k in range(kind.num_fields))
