"""Appending samples to a folder of ORC files, from a job or a stream: what was flushed survives a killed process.

Rows go to segments (`data.append.segments`) in the hidden folder `.append`; a file that is complete is packed from its
segments into one with proper stripes and checksums, and only then gets a name that ends in `.orc`. Any number of
writers may use one folder: each has names of its own, and a lock that its process holds as long as it lives. A new
writer finishes the files of writers whose process is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import pyarrow as pa

from data.append import segments as append_segments
from data.append.rows import RowChecker, orc_schema
from data.append.segments import SegmentWriter
from data.errors import DataError
from data.files import open_input
from data.format.tail import read_tail
from data.orc_writer import Settings
from data.paths import MANIFEST

_HIDDEN = ".append"
_OWNER = ".owner"
# Every flush repeats the statistics of all stripes before it in the segment.
_MOST_FLUSHES = 128
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Roll:
    """When a file is complete: at the first of these. Raises `ValueError` for values that make no sense."""

    bytes: int = 256 << 20
    """Size of the segments; packed, they become smaller."""
    rows: int | None = None
    seconds: float | None = None
    """Since the file's first row; looked at whenever rows come and in `Appender.tick`."""

    def __post_init__(self) -> None:
        for field in ("bytes", "rows", "seconds"):
            value = getattr(self, field)
            if value is not None and not value > 0:
                raise ValueError(f"{field}: expected a number above 0, found {value}")


@dataclass(frozen=True)
class Recovered:
    """A file that a writer whose process is gone had not finished."""

    path: str
    rows: int
    damaged: tuple[str, ...]
    """Copies of segments of which the disk lost something that had been flushed; usually none."""


class Appender:
    """Appends rows to new ORC files in `folder`. Use it in a `with`, or call `close()`; from one thread at a time.

    An error while writing (a full disk, say) ends it; what was flushed before is finished by the folder's next writer.

    Raises `DataError` for a schema that cannot be appended, and for a folder with a manifest, of which readers see only
    the files that it names.
    """

    rows: int
    """Rows given so far."""
    files: list[str]
    """Files that are complete, in the order of their rows."""
    recovered: tuple[Recovered, ...]
    """What was finished at the start of writers that are gone."""

    def __init__(
        self,
        folder: str,
        schema: pa.Schema,
        roll: Roll = Roll(),
        settings: Settings | None = None,
        flush_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`flush_seconds`: rows are flushed by themselves when the oldest not flushed has this age and another call
        comes; by default only `flush()` and a file's end do."""
        orc_schema(schema)  # refuses what cannot be written before a folder is made
        if os.path.exists(os.path.join(folder, MANIFEST)):
            raise DataError(
                f"{folder}: expected a folder without a manifest, found {MANIFEST}, which closes it: nobody would read "
                "files that are added; append to another folder and name both where they are read"
            )
        self.rows = 0
        self.files = []
        self._folder = folder
        self._schema = schema
        self._checker = RowChecker(schema)
        self._roll = roll
        self._settings = settings or Settings()
        self._flush_seconds = flush_seconds
        self._clock = clock
        self._number = 0
        self._segments: list[str] = []
        self._segment_bytes = 0  # of those that are closed
        self._writer: SegmentWriter | None = None
        self._file_rows = 0
        self._file_start = 0.0
        self._unflushed_since: float | None = None
        self._ended = False
        self._packer = ThreadPoolExecutor(1, thread_name_prefix="append")
        self._packing: Future[str] | None = None
        self._hidden = os.path.join(folder, _HIDDEN)
        os.makedirs(folder, exist_ok=True)
        self._name, self._owner, dead = _enter(self._hidden)
        try:
            self.recovered = tuple(
                one for owner in dead for one in _recover(folder, self._hidden, owner, self._settings)
            )
        except BaseException:
            self._leave()
            raise
        finally:
            for owner in dead:
                owner.close()

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Appends rows; their schema must equal the appender's."""
        if not batch.schema.equals(self._schema):
            raise ValueError(f"{self._folder}: expected a batch of {self._schema}, found {batch.schema}")
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            self._append(list(zip(*(part.column(k).to_pylist() for k in range(part.num_columns)))))

    def write_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Appends rows as dicts by column; a field that is missing is null.

        All or none: raises `DataError` that names row (counted from 0), field, expected and found.
        """
        self.write_checked([self._checker.row(row, f"row {number}") for number, row in enumerate(rows)])

    def write_checked(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Appends rows that `data.append.rows.RowChecker` made."""
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            self._append(rows[start : start + _ROWS_AT_ONCE])

    def flush(self) -> None:
        """Returns when all rows given so far are on the disk to stay."""
        self._check_open()
        if self._writer is not None:
            with self._ending():
                self._writer.flush()
        self._unflushed_since = None
        if self._writer is not None and self._writer.flushes >= _MOST_FLUSHES:
            self._end_segment()

    def tick(self) -> None:
        """Flushes and completes the file if it is time to; for streams that may pause."""
        self._check_open()
        now = self._clock()
        if self._file_rows and self._roll.seconds is not None and now - self._file_start >= self._roll.seconds:
            self._complete_file()
        elif (
            self._unflushed_since is not None
            and self._flush_seconds is not None
            and now - self._unflushed_since >= self._flush_seconds
        ):
            self.flush()

    def close(self) -> None:
        """Completes the file and gives it its name. May be called again."""
        if self._ended:
            return
        with self._ending():
            self._complete_file()
            self._finish_packing()
        self._ended = True
        self._leave()

    def __enter__(self) -> Appender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._check_open()
        while rows:
            self.tick()
            take = len(rows)
            if self._roll.rows is not None:
                take = min(take, self._roll.rows - self._file_rows)
            now = self._clock()
            with self._ending():
                if self._writer is None:
                    segment = self._path(f"{len(self._segments):04}{append_segments.SUFFIX}")
                    self._writer = SegmentWriter(segment, self._schema)
                    self._segments.append(self._writer.path)
                self._writer.write(rows[:take])
            if not self._file_rows:
                self._file_start = now
            if self._unflushed_since is None:
                self._unflushed_since = now
            self._file_rows += take
            self.rows += take
            rows = rows[take:]
            if self._file_rows == self._roll.rows or self._segment_bytes + self._writer.bytes >= self._roll.bytes:
                self._complete_file()

    def _complete_file(self) -> None:
        """Flushes, and has the file's segments packed."""
        self.flush()
        self._end_segment()
        if not self._segments:
            return
        self._finish_packing()
        name = f"{self._name}-{self._number:06}.orc"
        path, beside = os.path.join(self._folder, name), os.path.join(self._hidden, name)
        self._packing = self._packer.submit(_packed, self._segments, path, beside, self._schema, self._settings)
        self._number += 1
        self._segments = []
        self._segment_bytes = self._file_rows = 0

    def _end_segment(self) -> None:
        if self._writer is not None:
            self._segment_bytes += self._writer.bytes
            self._writer.close()
            self._writer = None

    def _finish_packing(self) -> None:
        """Waits for the file before, so that at most two are not finished."""
        if self._packing is not None:
            packing, self._packing = self._packing, None
            with self._ending():
                self.files.append(packing.result())

    def _path(self, rest: str) -> str:
        return os.path.join(self._hidden, f"{self._name}-{self._number:06}.{rest}")

    def _check_open(self) -> None:
        if self._ended:
            raise ValueError(f"{self._folder}: expected an open appender, found one that was closed or failed")

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """An error inside ends the appender; its files stay for the next one to finish."""
        try:
            yield
        except BaseException:
            if not self._ended:
                self._ended = True
                self._leave()
            raise

    def _leave(self) -> None:
        """Gives everything free; what is not finished stays."""
        self._packer.shutdown()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with _locked(self._hidden):
            if not glob.glob(f"{glob.escape(os.path.join(self._hidden, self._name))}-*"):
                os.unlink(self._owner.name)
            self._owner.close()
            _remove_if_unused(self._hidden)


def _packed(segments: Sequence[str], path: str, beside: str, schema: pa.Schema, settings: Settings) -> str:
    append_segments.finish(segments, path, beside, schema, settings)
    return path


def _enter(hidden: str) -> tuple[str, Any, list[Any]]:
    """(name of a new writer, its owner file, which stays locked, the owner files of dead writers, locked too)."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}{milliseconds:03}"
    name = f"{stamp}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
    with _locked(hidden):
        dead = []
        for path in sorted(glob.glob(os.path.join(glob.escape(hidden), f"*{_OWNER}"))):
            owner = open(path, "rb+")  # noqa: SIM115 - open as long as its files are being finished
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                dead.append(owner)
            except BlockingIOError:  # its process lives
                owner.close()
        own = open(os.path.join(hidden, f"{name}{_OWNER}"), "xb")  # noqa: SIM115 - open as long as the writer
        fcntl.flock(own, fcntl.LOCK_EX)
    return name, own, dead


def _recover(folder: str, hidden: str, owner: Any, settings: Settings) -> list[Recovered]:
    """Finishes what the dead writer that `owner` belongs to had flushed, and removes the rest of it."""
    name = os.path.basename(owner.name).removesuffix(_OWNER)
    prefix = os.path.join(hidden, name)
    files: dict[str, list[str]] = {}
    for segment in sorted(glob.glob(f"{glob.escape(prefix)}-*{append_segments.SUFFIX}")):
        file = os.path.basename(segment).removesuffix(append_segments.SUFFIX).rpartition(".")[0]
        files.setdefault(file, []).append(segment)
    recovered = []
    for file, segments in files.items():
        path = os.path.join(folder, f"{file}.orc")
        damaged = []
        whole = []
        for segment in segments:
            keep_as = os.path.join(folder, f"{os.path.basename(segment)}.damaged")
            found = append_segments.cut(segment, keep_as)
            if found.lost_bytes:
                damaged.append(keep_as)
            if found.bytes:
                whole.append(segment)
        if whole:
            schema = append_segments.read_schema(whole[0])
            append_segments.finish(whole, path, os.path.join(hidden, f"{file}.orc"), schema, settings)
        if os.path.exists(path):
            with open_input(path) as opened:
                recovered.append(Recovered(path, read_tail(opened, path).rows, tuple(damaged)))
    for rest in glob.glob(f"{glob.escape(prefix)}-*"):
        os.unlink(rest)
    os.unlink(owner.name)
    return recovered


@contextlib.contextmanager
def _locked(hidden: str) -> Iterator[None]:
    """Alone among all processes in making, looking for and removing writers of a folder."""
    path = os.path.join(hidden, "lock")
    while True:
        os.makedirs(hidden, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # the folder was just removed
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_file(path, descriptor):  # the one who had the lock may have removed it
                yield
                return
        finally:
            os.close(descriptor)


def _is_file(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_if_unused(hidden: str) -> None:
    """Removes the hidden folder when nothing but the lock, which must be held, is in it."""
    if os.listdir(hidden) == ["lock"]:
        os.unlink(os.path.join(hidden, "lock"))
        with contextlib.suppress(OSError):  # another process is just making a lock
            os.rmdir(hidden)
