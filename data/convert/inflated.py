"""What a gzipped file holds: everything that lies before its damage, if any."""

from __future__ import annotations

import io
import zlib
from typing import IO

_BLOCK_BYTES = 1 << 16
_GZIP = 31  # zlib's word for a gzip header and trailer


class Inflated:
    """What gzip members, one after another, hold; zeros behind them are filling. All that lies before damage is given.

    Raises EOFError or zlib.error at damage.
    """

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._member = zlib.decompressobj(_GZIP)

    def read(self) -> bytes:
        """Some bytes; none at the end."""
        while True:
            if self._member.eof and not self._next_member():
                return b""
            data = self._member.unconsumed_tail or self._file.read(_BLOCK_BYTES)
            # In pieces, so that little is lost where the next one is damaged.
            given = self._member.decompress(data, _BLOCK_BYTES)
            if given:
                return given
            if not data and not self._member.eof:
                raise EOFError("gzipped data that ends early")

    def _next_member(self) -> bool:
        data = self._member.unused_data
        while True:
            data = data.lstrip(b"\0")
            if data:
                break
            data = self._file.read(_BLOCK_BYTES)
            if not data:
                return False
        self._file.seek(-len(data), io.SEEK_CUR)
        self._member = zlib.decompressobj(_GZIP)
        return True
