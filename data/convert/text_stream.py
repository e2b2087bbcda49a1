"""The bytes of a text file, plain or gzipped, up to its damage, if any; told whether they are UTF-8."""

from __future__ import annotations

import codecs
import io
import zlib
from typing import IO

from data.convert.inflated import Inflated
from data.convert.sources import SourceFile
from data.errors import DataError


class NotUtf8(Exception):
    """Bytes that are no UTF-8, found on the way."""


class TextStream(io.RawIOBase):
    """Whole lines for a parser that reads ahead: an error on the way would cost it rows, now more, now fewer.

    So damage ends the stream at the end of the last line before it, and is kept in `damage`. The last line ends like
    the others. With `check`, `NotUtf8` is raised where the first other bytes are read.
    """

    def __init__(self, source: SourceFile, check: bool):
        self._file: IO[bytes] = open(source.path, "rb")  # noqa: SIM115 - closed by close()
        self._inflated = Inflated(self._file) if source.gzip else None
        self._decoder = codecs.getincrementaldecoder("utf-8")() if check else None
        self._rest = bytearray()  # read, but not given
        self._path = source.path
        self._begun = self._ended = False
        self._last = b"\n"  # byte that was read
        self.damage: Exception | None = None

    def readable(self) -> bool:
        return True

    @property
    def file_bytes(self) -> int:
        """Bytes of the file that are read."""
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        wanted = size if size >= 0 else 2**62
        while not self._ended and len(self._rest) < wanted:
            self._fill(min(wanted, 1 << 22))
        # Of a file that may turn out damaged, a line is held back until it is whole; not one longer than was asked for.
        end = len(self._rest)
        if self._inflated is not None and not self._ended:
            end = self._rest.rfind(b"\n") + 1 or end
        end = min(end, wanted)
        given = bytes(self._rest[:end])
        del self._rest[:end]
        return given

    def _fill(self, size: int) -> None:
        try:
            block = self._inflated.read() if self._inflated is not None else self._file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            self.damage, self._ended = error, True
            del self._rest[self._rest.rfind(b"\n") + 1 :]
            return
        if not self._begun:
            self._begun = True
            block = self._without_mark(block)
        if self._decoder is not None:
            try:
                self._decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                raise NotUtf8 from error
        self._rest += block
        if block:
            self._last = block[-1:]
        else:
            self._ended = True
            if self._last not in (b"\n", b"\r"):
                self._rest += b"\n"

    def _without_mark(self, block: bytes) -> bytes:
        if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # no column would be found
            raise DataError(f"{self._path}: expected text in UTF-8, found UTF-16")
        return block.removeprefix(codecs.BOM_UTF8)

    def close(self) -> None:
        self._file.close()
        super().close()
