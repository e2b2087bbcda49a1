"""How far a training has come, step by step, in a small file: after a restart it tells what is trained again."""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass

_RECORD = struct.Struct("<8sqqqq")
_CRC = struct.Struct("<I")
_MAGIC = b"pscstep1"

LAST_STEP = "last-step"
"""Name of the file in the output folder."""


@dataclass(frozen=True)
class LastStep:
    """After the step that was finished last: as in `ps_cluster.train.state.TrainingState`."""

    step: int
    rows: int
    rows_retrained: int
    restarts: int


class LastStepFile:
    """The file at `path`, made when missing; one system call a step."""

    def __init__(self, path: str):
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, last: LastStep) -> None:
        """Takes the place of what was written before; OSError when it cannot."""
        record = _RECORD.pack(_MAGIC, last.step, last.rows, last.rows_retrained, last.restarts)
        os.pwrite(self._descriptor, record + _CRC.pack(zlib.crc32(record)), 0)

    def read(self) -> LastStep | None:
        """What was written last; None when nothing was, or it is damaged."""
        raw = os.pread(self._descriptor, _RECORD.size + _CRC.size, 0)
        if len(raw) != _RECORD.size + _CRC.size or _CRC.unpack(raw[_RECORD.size :])[0] != zlib.crc32(
            raw[: _RECORD.size]
        ):
            return None
        magic, *numbers = _RECORD.unpack(raw[: _RECORD.size])
        return LastStep(*numbers) if magic == _MAGIC else None

    def close(self) -> None:
        """May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
