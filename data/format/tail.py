"""What an ORC file says of itself: its tail, the footers of its stripes and their indexes. No row is decoded here.

Everything is checked before it is used, so that a damaged file is a `DataError` that names the file and what is wrong,
never a large allocation or a wrong place. Layout: ORC specification v1, "File Tail" and "Stripes".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from data.errors import DataError
from data.format import blocks as orc_blocks
from data.format import messages as orc_messages
from data.format.bloom import BloomFilter
from data.format.statistics import Statistics, StatisticsRow, from_message

__all__ = [
    "BloomFilter",
    "Statistics",
    "Stream",
    "StripeFooter",
    "StripeInfo",
    "Tail",
    "TypeInfo",
    "bloom_filters",
    "column_id",
    "read_stripe_footer",
    "read_tail",
    "row_index",
    "stripe_streams",
    "top_level_columns",
]

CHECKSUMS_KEY = "ps_cluster.checksums"
"""User metadata of that name is `data.format.checksums`."""
HEADER_BYTES = 3
LONGEST_POSTSCRIPT_BYTES = 255
_FIRST_READ_BYTES = 1 << 16
_KEY_BYTES = 1 << 16  # not more than the first read
# Bounds what a damaged or hostile file can make a reader allocate. The tail of a file of 2,000 stripes of 200 columns
# has about 20 MB.
_LARGEST_MESSAGE_BYTES = 1 << 28
_MOST_ROWS = 1 << 62
_MOST_HASHES = 1 << 10

_KINDS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "timestamp"),
    *("array", "map", "struct", "uniontype", "decimal", "date", "varchar", "char", "timestamp_instant"),
    *("geometry", "geography"),
)
_STREAM_KINDS = {
    0: "PRESENT",
    1: "DATA",
    2: "LENGTH",
    3: "DICTIONARY_DATA",
    4: "DICTIONARY_COUNT",
    5: "SECONDARY",
    6: "ROW_INDEX",
    7: "BLOOM_FILTER",
    8: "BLOOM_FILTER_UTF8",
}
_INDEX_KINDS = ("ROW_INDEX", "BLOOM_FILTER", "BLOOM_FILTER_UTF8")


@dataclass(frozen=True)
class StripeInfo:
    """Where a stripe lies: `offset`, then its indexes, its data and its footer."""

    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    rows: int

    @property
    def footer_offset(self) -> int:
        return self.offset + self.index_bytes + self.data_bytes

    @property
    def end(self) -> int:
        return self.footer_offset + self.footer_bytes


@dataclass(frozen=True)
class TypeInfo:
    """A node of the tree of types; nodes are numbered from the root, 0, in pre-order."""

    kind: str
    """As in a Hive schema: "bigint", "array", "struct", …"""
    subtypes: tuple[int, ...]
    field_names: tuple[str, ...]


@dataclass(frozen=True)
class Tail:
    """Metadata, footer and postscript of a file."""

    path: str
    file_bytes: int
    rows: int
    codec: str
    """One of "none", "zlib", "snappy", "lz4", "zstd"."""
    block_bytes: int
    """Most bytes a compressed block decodes to."""
    row_index_stride: int
    """Rows in a row group; 0 when the file has no row index."""
    types: tuple[TypeInfo, ...]
    user_metadata: dict[str, bytes]
    stripes: tuple[StripeInfo, ...]
    column_statistics: Sequence[Statistics]
    """Of the whole file, by type id; may be empty."""
    stripe_statistics: Sequence[Sequence[Statistics]]
    """By stripe, then by type id; may be empty."""
    metadata_bytes: int
    """Length in the file of the metadata (the stripe statistics)."""
    footer_bytes: int
    """Length in the file of the footer."""
    postscript_bytes: int
    file_key: int
    """What tells the file from others, wherever it lies: 64 bits, BLAKE2b of its size and of what follows its last
    stripe, of that at most the last 64 KiB."""

    @property
    def start(self) -> int:
        """Where the metadata begins."""
        return self.file_bytes - 1 - self.postscript_bytes - self.footer_bytes - self.metadata_bytes


@dataclass(frozen=True)
class Stream:
    """One stream of a stripe."""

    kind: str
    """"PRESENT", "DATA", "LENGTH", …, and of indexes "ROW_INDEX", "BLOOM_FILTER", "BLOOM_FILTER_UTF8"."""
    column: int
    """ORC type id."""
    offset: int
    """In the file."""
    bytes: int

    @property
    def is_index(self) -> bool:
        return self.kind in _INDEX_KINDS


@dataclass(frozen=True)
class StripeFooter:
    """The streams of a stripe in the order they lie, and how its columns are encoded."""

    streams: tuple[Stream, ...]
    bloom_encodings: tuple[int, ...]
    """By type id: version of the hash under the bloom filters; 1 is the one of `data.format.bloom`."""


def read_tail(file: pa.NativeFile, path: str) -> Tail:
    """The tail of the ORC file `file`, which errors call `path`. Raises `DataError` for damage."""
    file_bytes = file.size()
    if not file_bytes:
        raise DataError(f"{path}: expected an ORC file, found an empty file (0 bytes)")
    start = _read(file, path, 0, min(file_bytes, HEADER_BYTES))
    if start != b"ORC":
        raise DataError(f"{path}: expected an ORC file, found one that starts with {start!r}")
    if file_bytes == HEADER_BYTES:
        raise _damaged(path, "it ends after 3 bytes")
    end = _read(file, path, max(file_bytes - _FIRST_READ_BYTES, 0), min(file_bytes, _FIRST_READ_BYTES))
    postscript, codec, block_bytes, postscript_bytes = _postscript(end, path, file_bytes)

    tail_bytes = postscript.metadata_bytes + postscript.footer_bytes + postscript_bytes + 1
    if tail_bytes > file_bytes - HEADER_BYTES:
        raise _damaged(path, f"its tail should have {tail_bytes} bytes, the file has {file_bytes}")
    if tail_bytes > len(end):
        end = _read(file, path, file_bytes - tail_bytes, tail_bytes - len(end)) + end
    start = len(end) - tail_bytes
    metadata_content = end[start : start + postscript.metadata_bytes]
    start += postscript.metadata_bytes
    footer_content = end[start : start + postscript.footer_bytes]
    footer = _message("Footer", footer_content, codec, block_bytes, path, "footer")
    metadata = _message("Metadata", metadata_content, codec, block_bytes, path, "stripe statistics")

    if footer.HasField("encryption"):
        raise DataError(f"{path}: expected an ORC file without encryption, found encrypted columns")
    types = _types(footer.types, path)
    stripes = _stripes(footer, path, file_bytes - tail_bytes)
    user_metadata = {}
    for item in footer.metadata:
        user_metadata[item.name.decode("utf-8", "surrogateescape")] = item.value
    # A wrong byte beside the checksums must not pass for a file without any; their block is never compressed.
    if CHECKSUMS_KEY not in user_metadata and CHECKSUMS_KEY.encode() in footer_content:
        raise _damaged(path, "it names checksums, but they cannot be read")
    if footer.statistics and len(footer.statistics) != len(types):
        raise _damaged(path, f"it has {len(types)} types and statistics of {len(footer.statistics)}")
    if metadata.stripes and len(metadata.stripes) != len(stripes):
        raise _damaged(path, f"it has {len(stripes)} stripes and statistics of {len(metadata.stripes)}")
    for number, row in enumerate(metadata.stripes):
        if len(row.columns) != len(types):
            raise _damaged(path, f"it has {len(types)} types, and in stripe {number} statistics of {len(row.columns)}")
    return Tail(
        path=path,
        file_bytes=file_bytes,
        rows=footer.rows,
        codec=codec,
        block_bytes=block_bytes,
        row_index_stride=footer.row_index_stride,
        types=types,
        user_metadata=user_metadata,
        stripes=stripes,
        column_statistics=StatisticsRow(footer.statistics),
        stripe_statistics=tuple(StatisticsRow(row.columns) for row in metadata.stripes),
        metadata_bytes=postscript.metadata_bytes,
        footer_bytes=postscript.footer_bytes,
        postscript_bytes=postscript_bytes,
        file_key=_file_key(file_bytes, stripes[-1].end if stripes else HEADER_BYTES, end),
    )


def top_level_columns(tail: Tail) -> dict[str, int]:
    """Names and ORC type ids of the columns, in the order of the file; of equal names the first."""
    columns: dict[str, int] = {}
    for name, subtype in zip(tail.types[0].field_names, tail.types[0].subtypes):
        columns.setdefault(name, subtype)
    return columns


def column_id(tail: Tail, name: str) -> int:
    """ORC type id of the top-level column `name`. Raises `DataError` when there is none."""
    names = tail.types[0].field_names
    if name not in names:
        raise DataError(f"{tail.path}: column {name}: expected a column of that name, found only {', '.join(names)}")
    return tail.types[0].subtypes[names.index(name)]


def read_stripe_footer(file: pa.NativeFile, tail: Tail, stripe: int) -> StripeFooter:
    """The footer of stripe number `stripe`. Raises `DataError` for damage."""
    info = tail.stripes[stripe]
    where = f"footer of stripe {stripe}"
    content = _read(file, tail.path, info.footer_offset, info.footer_bytes)
    footer = _message("StripeFooter", content, tail.codec, tail.block_bytes, tail.path, where)
    if footer.encryption:
        raise DataError(f"{tail.path}: expected an ORC file without encryption, found it in stripe {stripe}")
    streams = []
    offset, data_start = info.offset, info.offset + info.index_bytes
    for message in footer.streams:
        kind = _STREAM_KINDS.get(message.kind, f"kind {message.kind}")
        if message.column >= len(tail.types):
            raise _damaged(tail.path, f"{where}: it names column {message.column} of {len(tail.types)}")
        stream = Stream(kind, message.column, offset, message.bytes)
        offset += message.bytes
        lies_right = offset <= data_start if stream.is_index else stream.offset >= data_start
        if offset > info.footer_offset or (stream.bytes and not lies_right):
            raise _damaged(
                tail.path, f"{where}: its streams do not lie in {info.index_bytes} + {info.data_bytes} bytes"
            )
        streams.append(stream)
    if offset != info.footer_offset:
        raise _damaged(tail.path, f"{where}: its streams have {offset - info.offset} bytes, the stripe has more")
    if footer.columns and len(footer.columns) != len(tail.types):
        raise _damaged(tail.path, f"{where}: it has encodings of {len(footer.columns)} of {len(tail.types)} columns")
    return StripeFooter(tuple(streams), tuple(column.bloom for column in footer.columns))


def stripe_streams(file: pa.NativeFile, tail: Tail, stripe: int) -> tuple[Stream, ...]:
    """The streams of stripe number `stripe`, in the order they lie in the file."""
    return read_stripe_footer(file, tail, stripe).streams


def row_groups(tail: Tail, stripe: int) -> int:
    """Number of row groups of a stripe; 0 when the file has no row index."""
    stride = tail.row_index_stride
    return -(-tail.stripes[stripe].rows // stride) if stride else 0


def row_index(
    file: pa.NativeFile, tail: Tail, stripe: int, column: int, footer: StripeFooter | None = None
) -> Sequence[Statistics]:
    """Statistics of each row group of the column with ORC type id `column`; empty when the stripe has none.

    `footer`: of the stripe, if it has been read already. Row groups count values of the column itself, so of a column
    inside a list there may be more values than rows.
    """
    where = f"row index of column {column} in stripe {stripe}"
    index = _index_message(file, tail, stripe, column, footer, "ROW_INDEX", "RowIndex", where)
    if index is None:
        return ()
    _check_groups(len(index.entries), tail, stripe, where)
    return tuple(from_message(entry.statistics) for entry in index.entries)


def bloom_filters(
    file: pa.NativeFile, tail: Tail, stripe: int, column: int, footer: StripeFooter | None = None
) -> Sequence[BloomFilter]:
    """The bloom filter of each row group of a column, as `row_index`; empty without those of `data.format.bloom`."""
    footer = footer or read_stripe_footer(file, tail, stripe)
    if column >= len(footer.bloom_encodings) or footer.bloom_encodings[column] != 1:
        return ()
    where = f"bloom filters of column {column} in stripe {stripe}"
    index = _index_message(file, tail, stripe, column, footer, "BLOOM_FILTER_UTF8", "BloomFilterIndex", where)
    if index is None:
        return ()
    _check_groups(len(index.filters), tail, stripe, where)
    filters = []
    for message in index.filters:
        if not message.bits or len(message.bits) % 8 or not 0 < message.hashes <= _MOST_HASHES:
            raise _damaged(tail.path, f"{where}: {len(message.bits)} bytes under {message.hashes} hashes")
        filters.append(BloomFilter(message.hashes, message.bits))
    return tuple(filters)


def _index_message(
    file: pa.NativeFile,
    tail: Tail,
    stripe: int,
    column: int,
    footer: StripeFooter | None,
    kind: str,
    message: str,
    where: str,
) -> Any:
    if not tail.row_index_stride:
        return None
    footer = footer or read_stripe_footer(file, tail, stripe)
    for stream in footer.streams:
        if stream.kind == kind and stream.column == column:
            content = _read(file, tail.path, stream.offset, stream.bytes)
            return _message(message, content, tail.codec, tail.block_bytes, tail.path, where)
    return None


def _check_groups(found: int, tail: Tail, stripe: int, where: str) -> None:
    if found != row_groups(tail, stripe):
        raise _damaged(tail.path, f"{where}: it has {found} row groups, the stripe {row_groups(tail, stripe)}")


def _postscript(end: bytes, path: str, file_bytes: int) -> tuple[Any, str, int, int]:
    """The postscript at the end of `end`, the codec, the size of a block, and the postscript's own length."""
    length = end[-1]
    content = end[-1 - length : -1]
    if len(content) != length or length > file_bytes - HEADER_BYTES - 1 or not content.endswith(b"ORC"):
        raise DataError(
            f"{path}: expected an ORC file, found a truncated or damaged one (it does not end as ORC files do)"
        )
    try:
        postscript = orc_messages.parse("PostScript", content)
    except orc_messages.MessageError as error:
        raise _damaged(path, "its postscript cannot be read") from error
    if postscript.magic != b"ORC":
        raise _damaged(path, "its postscript does not end with ORC")
    if postscript.compression not in orc_blocks.CODECS:
        known = ", ".join(orc_blocks.CODECS.values())
        raise DataError(f"{path}: expected one of the codecs {known}, found codec number {postscript.compression}")
    codec = orc_blocks.CODECS[postscript.compression]
    block_bytes = postscript.block_bytes
    if codec != "none" and not 0 < block_bytes <= orc_blocks.LARGEST_BLOCK_BYTES:
        raise _damaged(path, f"its blocks should have up to {block_bytes} bytes")
    return postscript, codec, block_bytes, length


def _types(messages: Sequence[Any], path: str) -> tuple[TypeInfo, ...]:
    if not messages or messages[0].kind != _KINDS.index("struct"):
        raise DataError(f"{path}: expected an ORC file of a struct, found another type or none")
    types = []
    parents = [-1] * len(messages)
    for number, message in enumerate(messages):
        if message.kind >= len(_KINDS):
            raise DataError(f"{path}: expected types that are known, found type number {message.kind}")
        kind = _KINDS[message.kind]
        children = {"array": 1, "map": 2, "struct": len(message.field_names)}.get(kind, 0)
        if kind != "uniontype" and len(message.subtypes) != children:
            raise _damaged(path, f"type {number} ({kind}) has {len(message.subtypes)} parts, it should have {children}")
        # Pre-order: a child comes after its parent, and has one.
        for child in message.subtypes:
            if not number < child < len(messages) or parents[child] >= 0:
                raise _damaged(path, f"its types are no tree: type {child} under type {number}")
            parents[child] = number
        names = tuple(name.decode("utf-8", "surrogateescape") for name in message.field_names)
        types.append(TypeInfo(kind, tuple(message.subtypes), names))
    if -1 in parents[1:]:
        raise _damaged(path, f"its types are no tree: type {parents.index(-1, 1)} is part of none")
    return tuple(types)


def _stripes(footer: Any, path: str, tail_start: int) -> tuple[StripeInfo, ...]:
    stripes = []
    end = HEADER_BYTES
    rows = 0
    for number, message in enumerate(footer.stripes):
        info = StripeInfo(message.offset, message.index_bytes, message.data_bytes, message.footer_bytes, message.rows)
        if info.offset < end or info.end > tail_start:
            raise _damaged(path, f"stripe {number} should lie at bytes {info.offset} to {info.end}")
        end = info.end
        rows += info.rows
        stripes.append(info)
    if rows != footer.rows or rows > _MOST_ROWS:
        raise _damaged(path, f"its stripes have {rows} rows, its footer says {footer.rows}")
    return tuple(stripes)


def _file_key(file_bytes: int, stripes_end: int, end: bytes) -> int:
    """`end`: at least the last `_KEY_BYTES` of the file, or all of it."""
    hashed = end[-min(_KEY_BYTES, file_bytes - stripes_end) :]
    digest = hashlib.blake2b(file_bytes.to_bytes(8, "little") + hashed, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _message(name: str, content: bytes, codec: str, block_bytes: int, path: str, what: str) -> Any:
    try:
        return orc_messages.parse(name, orc_blocks.decompress(content, codec, block_bytes, _LARGEST_MESSAGE_BYTES))
    except (orc_blocks.BlockError, orc_messages.MessageError) as error:
        raise _damaged(path, f"{what}: {error}") from error


def _read(file: pa.NativeFile, path: str, offset: int, length: int) -> bytes:
    content: bytes = file.read_at(length, offset)
    if len(content) != length:
        raise _damaged(path, f"expected {length} bytes at {offset}, found {len(content)}")
    return content


def _damaged(path: str, what: str) -> DataError:
    return DataError(f"{path}: expected an ORC file, found a truncated or damaged one ({what})")
