"""One ORC file of the stripes of several.

A stripe tells nothing of where it lies: its own footer, its indexes and its streams count from its start. So stripes
can be copied as they are; only the tail is made anew, from the tails of the files they come from (ORC specification v1,
"File Tail").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, BinaryIO

from data.format import blocks as orc_blocks
from data.format import messages as orc_messages

_MAGIC = b"ORC"
_INT64 = range(-(2**63), 2**63)


class Splicer:
    """Writes to `file`, which is at its start, the stripes of whole ORC files of one schema, codec and block size.

    The files are trusted to be whole: they come from an encoder of this very process. Memory: the statistics of the
    stripes.
    """

    def __init__(self, file: BinaryIO):
        self._file = file
        self._end = file.write(_MAGIC)
        self._postscript: Any = None
        self._codec = ""
        self._footer: Any = None
        self._stripe_statistics: list[bytes] = []

    def add(self, content: bytes | memoryview) -> None:
        """Appends the stripes of the ORC file `content`."""
        end = len(content) - 1 - content[-1]
        postscript = orc_messages.parse("PostScript", bytes(content[end:-1]))
        codec = orc_blocks.CODECS[postscript.compression]
        footer_start = end - postscript.footer_bytes
        statistics_start = footer_start - postscript.metadata_bytes

        def decoded(start: int, end: int) -> bytes:
            return orc_blocks.decompress(bytes(content[start:end]), codec, postscript.block_bytes, end * 2**10)

        footer = orc_messages.parse("Footer", decoded(footer_start, end))
        # The message is a list of the stripes' statistics: such messages are concatenated as they are.
        self._stripe_statistics.append(decoded(statistics_start, footer_start))
        start = footer.header_bytes
        for stripe in footer.stripes:
            stripe.offset += self._end - start
        self._end += self._file.write(content[start:statistics_start])
        if self._footer is None:
            self._postscript, self._codec, self._footer = postscript, codec, footer
            for statistics in footer.statistics:
                statistics.DiscardUnknownFields()  # of texts and the like, which are not merged here
            return
        self._footer.stripes.extend(footer.stripes)
        self._footer.rows += footer.rows
        for statistics, more in zip(self._footer.statistics, footer.statistics, strict=True):
            _merge(statistics, more)

    def finish(self) -> None:
        """Writes the tail; at least one file must have been added."""
        self._footer.header_bytes = len(_MAGIC)
        self._footer.content_bytes = self._end
        statistics = self._blocks(b"".join(self._stripe_statistics))
        footer = self._blocks(self._footer.SerializeToString())
        self._postscript.metadata_bytes = len(statistics)
        self._postscript.footer_bytes = len(footer)
        postscript = self._postscript.SerializeToString()
        self._file.write(statistics + footer + postscript + bytes([len(postscript)]))

    def _blocks(self, content: bytes) -> bytes:
        return orc_blocks.compress(content, self._codec, self._postscript.block_bytes)


def _merge(statistics: Any, more: Any) -> None:
    """Adds to the statistics of a column those of further rows; what is not known of both is dropped."""
    for kind, merge in (("integers", _merge_integers), ("doubles", _merge_doubles), ("buckets", _merge_buckets)):
        if not (statistics.HasField(kind) and more.HasField(kind)):
            statistics.ClearField(kind)
        elif not statistics.values:
            getattr(statistics, kind).CopyFrom(getattr(more, kind))
        elif more.values:
            merge(getattr(statistics, kind), getattr(more, kind))
    statistics.values += more.values
    if not (statistics.HasField("has_null") and more.HasField("has_null")):
        statistics.ClearField("has_null")
    else:
        statistics.has_null |= more.has_null


def _merge_integers(integers: Any, more: Any) -> None:
    _merge_bounds(integers, more)
    if integers.HasField("sum"):
        total = integers.sum + more.sum
        if more.HasField("sum") and total in _INT64:
            integers.sum = total
        else:
            integers.ClearField("sum")  # as ORC has it when a sum overflows


def _merge_doubles(doubles: Any, more: Any) -> None:
    total = doubles.sum + more.sum if doubles.HasField("sum") and more.HasField("sum") else math.nan
    _merge_bounds(doubles, more)
    doubles.sum = total  # that of values with a NaN among them is one, which tells not to believe the bounds


def _merge_buckets(buckets: Any, more: Any) -> None:
    counts: Sequence[int] = [a + b for a, b in zip(buckets.count, more.count, strict=True)]
    del buckets.count[:]
    buckets.count.extend(counts)


def _merge_bounds(bounds: Any, more: Any) -> None:
    for field, best in (("minimum", min), ("maximum", max)):
        if bounds.HasField(field) and more.HasField(field):
            setattr(bounds, field, best(getattr(bounds, field), getattr(more, field)))
        else:
            bounds.ClearField(field)
