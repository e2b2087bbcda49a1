"""ORC's compressed streams: runs of blocks with a 3-byte header, each decoded by itself, in bounded memory."""

from __future__ import annotations

import zlib

import pyarrow as pa

# Postscript numbers. LZO (3) and brotli (6) are decoded by no library that is installed.
CODECS = {0: "none", 1: "zlib", 2: "snappy", 4: "lz4", 5: "zstd"}
LARGEST_BLOCK_BYTES = 1 << 23  # lengths in block headers have 23 bits
_HEADER_BYTES = 3


class BlockError(ValueError):
    """A compressed stream that cannot be decoded; the text says what is wrong with it."""


def decompress(content: bytes, codec: str, block_bytes: int, limit_bytes: int) -> bytes:
    """The stream in `content`, of which no block gives more than `block_bytes`.

    Raises `BlockError` for damage and for streams that give more than `limit_bytes`.
    """
    if codec == "none":
        if len(content) > limit_bytes:
            raise BlockError(f"expected at most {limit_bytes} bytes, found {len(content)}")
        return content
    pieces = []
    position = total = 0
    while position < len(content):
        header = int.from_bytes(content[position : position + _HEADER_BYTES], "little")
        start = position + _HEADER_BYTES
        position = start + (header >> 1)
        if position > len(content):
            raise BlockError(f"a block of {header >> 1} bytes runs over the end of its {len(content)} bytes")
        block = content[start:position]
        piece = block if header & 1 else _decode(block, codec, block_bytes)
        if len(piece) > block_bytes:
            raise BlockError(f"expected at most {block_bytes} bytes in a block, found {len(piece)}")
        total += len(piece)
        if total > limit_bytes:
            raise BlockError(f"expected at most {limit_bytes} bytes, found more")
        pieces.append(piece)
    return b"".join(pieces)


def raw_blocks(content: bytes, codec: str, block_bytes: int) -> bytes:
    """`content` as a stream of a file of this codec, in blocks that are not compressed; codec none has no blocks."""
    if codec == "none":
        return content
    pieces = (content[start : start + block_bytes] for start in range(0, len(content), block_bytes))
    # The last bit of a header says "not compressed".
    return b"".join((len(piece) * 2 + 1).to_bytes(_HEADER_BYTES, "little") + piece for piece in pieces)


def compress(content: bytes, codec: str, block_bytes: int) -> bytes:
    """`content` as a stream of a file of this codec; codec none has no blocks."""
    if codec == "none":
        return content
    stream = bytearray()
    for start in range(0, len(content), block_bytes):
        block = content[start : start + block_bytes]
        encoded = _encode(block, codec)
        stream += raw_blocks(block, codec, block_bytes) if len(encoded) >= len(block) else _headed(encoded)
    return bytes(stream)


def _headed(encoded: bytes) -> bytes:
    return (len(encoded) * 2).to_bytes(_HEADER_BYTES, "little") + encoded


def _encode(block: bytes, codec: str) -> bytes:
    if codec == "zlib":
        encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return encoder.compress(block) + encoder.flush()
    encoded: bytes = pa.Codec("lz4_raw" if codec == "lz4" else codec).compress(block, asbytes=True)
    return encoded


def _decode(block: bytes, codec: str, block_bytes: int) -> bytes:
    try:
        if codec == "zlib":
            decoder = zlib.decompressobj(-zlib.MAX_WBITS)
            piece = decoder.decompress(block, block_bytes)
            if not decoder.eof:
                raise BlockError("a zlib block does not end where it should")
            return piece
        if codec == "zstd":
            return _decode_zstd(block, block_bytes)
        if codec == "snappy":
            return _decode_sized(block, "snappy", _snappy_size(block), block_bytes)
        return _decode_sized(block, "lz4_raw", _lz4_size(block), block_bytes)
    except (zlib.error, pa.ArrowException, OSError, IndexError) as error:
        raise BlockError(f"a {codec} block cannot be decoded ({error})") from error


def _decode_sized(block: bytes, codec: str, size: int, block_bytes: int) -> bytes:
    if size > block_bytes:
        raise BlockError(f"expected at most {block_bytes} bytes in a block, found {size}")
    if not size:
        return b""
    # Returns a buffer of the asked size even where it decoded less, so the size must be known before.
    piece: bytes = pa.Codec(codec).decompress(block, size, asbytes=True)
    return piece


def _decode_zstd(block: bytes, block_bytes: int) -> bytes:
    # A zstd frame need not tell its size, so it is read as a stream.
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        piece: bytes = stream.read(block_bytes + 1)
    return piece


def _snappy_size(block: bytes) -> int:
    """The decoded length that a snappy block starts with, a base-128 number."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return size
    raise BlockError("a snappy block does not start with its length")


def _lz4_size(block: bytes) -> int:
    """The decoded length of a raw LZ4 block, which stores it nowhere: the sum over its sequences."""
    size = position = 0
    while position < len(block):
        token = block[position]
        position += 1
        literals, position = _lz4_length(block, position, token >> 4)
        size += literals
        position += literals
        if position >= len(block):  # the last sequence has no match
            break
        position += 2  # the match's offset
        match, position = _lz4_length(block, position, token & 15)
        size += match + 4
    return size


def _lz4_length(block: bytes, position: int, length: int) -> tuple[int, int]:
    """A length that starts in a token's 4 bits and, when those are full, goes on in bytes; and where it ends."""
    if length == 15:
        while True:
            byte = block[position]
            position += 1
            length += byte
            if byte != 255:
                break
    return length, position
