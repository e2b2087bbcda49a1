"""Writing one ORC file: Arrow batches in, a whole file or none out.

The columns are encoded by `pyarrow.orc`: it takes Arrow batches as they are, while pyorc takes a Python
tuple a row, which costs more than the encoding itself. pyarrow ends a stripe by its encoded size, of which it
counts only blocks that are full: the same setting gave 1,000 rows for one file and 80,000 for another. So it
encodes one stripe at a time, of as many rows as wanted, and `data.format.splice` makes one file of them. User
metadata, which pyarrow cannot write, and the checksums are added when the file is closed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Literal

import pyarrow as pa
from pyarrow import orc

from data.format.checksums import add_metadata
from data.format.footer import sync
from data.format.splice import Splicer

_ONE_STRIPE = 1 << 62
# pyarrow moves all items of a batch of lists again for each of its rows, so small batches are fastest.
_ENCODED_AT_ONCE = 512


@dataclass(frozen=True)
class Settings:
    """How a file is encoded. Raises `ValueError` for values that make no sense.

    The defaults are measured, on a synthetic log of 37 columns by user and time / by time / in random order, and on
    MovieLens by user. What is told of a setting is bytes per row, or what another value changes in them.
    """

    codec: Literal["zstd", "zlib", "snappy", "lz4", "none"] = "zstd"
    """zstd 21 / 30 / 73, MovieLens 73; zlib 21 / 33 / 85, 74; snappy 32 / 48 / 121, 96; lz4 30 / 48 / 114, 99. Read
    by user at 1.75, 1.24, 1.76 and 1.39 million rows per CPU-second."""
    stripe_rows: int = 16_384
    """Rows of each stripe but the last. A stripe is what is shared out, shuffled, and decoded at once. 4,096 rows:
    2 / 7 / 9 % larger; 65,536 rows, or all: at most 2 % smaller."""
    stripe_bytes: int = 64 << 20
    """Of Arrow data: wider rows than this allows for make smaller stripes."""
    block_bytes: int = 1 << 18
    """Most bytes that are compressed as one; a multiple of 64 KiB. 64 KiB: 1 / 11 / 14 % larger. 1 MiB: 0 / 6 / 4 %
    smaller, but written a third slower."""
    row_index_stride: int = 2048
    """Rows of a row group, the smallest unit that `where` can skip. 10,000: 0.5 % smaller; 1,024: 1.5 % larger."""
    strategy: Literal["compression", "speed"] | None = None
    """"speed" packs integers to whole bytes: zstd and zlib find more in them, and they are decoded 1.4 times as fast.
    "compression" is 8 / 13 / 9 % larger with zstd. By default "speed", but for lz4, which ORC would then not compress
    with at all."""
    bloom_columns: tuple[str, ...] = ()
    """Columns of numbers with a bloom filter in each row group."""
    bloom_fpp: float = 0.05
    """Share of wrong positives of those."""

    def __post_init__(self) -> None:
        if self.codec not in ("zstd", "zlib", "snappy", "lz4", "none"):
            raise ValueError(f"codec: expected one of zstd, zlib, snappy, lz4, none; found {self.codec!r}")
        if self.strategy not in ("compression", "speed", None):
            raise ValueError(f"strategy: expected compression or speed, found {self.strategy!r}")
        for field in ("stripe_rows", "stripe_bytes", "row_index_stride"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: expected at least 1, found {getattr(self, field)}")
        if self.block_bytes % (1 << 16) or not 0 < self.block_bytes < 1 << 23:
            raise ValueError(f"block_bytes: expected a multiple of 65,536 below 8 MiB, found {self.block_bytes}")
        if not 0 < self.bloom_fpp < 1:
            raise ValueError(f"bloom_fpp: expected a number above 0 and below 1, found {self.bloom_fpp}")


class OrcWriter:
    """Writes `path`; the file appears under that name on `close()`, complete, or never.

    Leaving a `with` block by an exception, or `discard()`, removes what was written. Holds the rows of one stripe.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        metadata: Mapping[str, str] | None = None,
        settings: Settings = Settings(),
    ):
        self._bloom_ids = _type_ids(path, schema, settings.bloom_columns)
        self.path = path
        self.rows = 0
        self._schema = schema
        self._metadata = dict(metadata or {})
        self._settings = settings
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._beside = f"{path}.{os.getpid()}.partial"
        self._closed = False
        self._file: BinaryIO = open(self._beside, "wb")  # noqa: SIM115 - closed by close() or discard()
        self._splicer = Splicer(self._file)

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Appends rows; their schema must equal the file's."""
        if not batch.schema.equals(self._schema):
            raise ValueError(f"{self.path}: expected a batch of {self._schema}, found {batch.schema}")
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        self.rows += table.num_rows
        while table.num_rows:
            take = min(table.num_rows, self._settings.stripe_rows - self._waiting_rows, self._rows_that_fit(table))
            self._waiting.append(table.slice(0, take))
            self._waiting_rows += take
            self._waiting_bytes += self._waiting[-1].nbytes
            table = table.slice(take)
            if self._waiting_rows == self._settings.stripe_rows or self._waiting_bytes >= self._settings.stripe_bytes:
                self._end_stripe()

    def close(self) -> None:
        """Finishes the file, adds metadata and checksums, syncs it to disk and gives it its name."""
        if self._closed:
            return
        try:
            if self._waiting or not self.rows:
                self._end_stripe()
            self._splicer.finish()
            self._file.close()
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
        with contextlib.suppress(OSError):
            self._file.close()
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

    def _rows_that_fit(self, table: pa.Table) -> int:
        """Of `table`, rows of its mean size until the stripe has its most bytes; at least one."""
        room = self._settings.stripe_bytes - self._waiting_bytes
        return max(1, table.num_rows * room // max(table.nbytes, 1))

    def _end_stripe(self) -> None:
        """Encodes the rows that wait as one stripe; without rows, as a file that has the schema only."""
        settings = self._settings
        rows = pa.concat_tables([self._schema.empty_table(), *self._waiting])
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        sink = pa.BufferOutputStream()
        with orc.ORCWriter(
            sink,
            batch_size=_ENCODED_AT_ONCE,
            stripe_size=_ONE_STRIPE,
            compression="uncompressed" if settings.codec == "none" else settings.codec,
            compression_block_size=settings.block_bytes,
            compression_strategy=settings.strategy or ("compression" if settings.codec == "lz4" else "speed"),
            row_index_stride=settings.row_index_stride,
            bloom_filter_columns=self._bloom_ids or None,
            bloom_filter_fpp=settings.bloom_fpp,
        ) as writer:
            writer.write(rows)
        self._splicer.add(memoryview(sink.getvalue()))


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
