"""`ps-cluster data append`: a stream of JSON lines to ORC files."""

from __future__ import annotations

import argparse
import glob
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ps_cluster.cli.data.progress import SILENCE_SECONDS
from ps_cluster.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from data.append.appender import Appender

_APPEND = (
    "Reads one JSON object a line from standard input and appends them as rows to ORC files in OUT, which get their "
    "names when they are complete. What was flushed survives even kill -9: the next run on OUT gives it its name. "
    "The columns are those of the ORC files in OUT, unless --like or --column say others."
)
_READ_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 26
_WAIT_SECONDS = 0.25


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the kind to `ps-cluster data`."""
    append = kinds.add_parser("append", help="append a stream of JSON lines to ORC files", description=_APPEND)
    append.add_argument("out", metavar="OUT", help="folder of the files; made when it does not exist")
    append.add_argument("--like", metavar="FILE", help="an ORC file with the columns to write")
    append.add_argument(
        "--column",
        metavar="NAME:TYPE",
        action="append",
        default=[],
        help="a column: int64, float32, double, boolean or int64_list; given once for each",
    )
    append.add_argument(
        "--on-bad",
        choices=("error", "skip"),
        default="error",
        help="a line that does not fit: stop, with all before it kept, or leave it out and count it (default: error)",
    )
    append.add_argument("--flush-seconds", type=float, default=5.0, help="flush this often (default: 5)")
    append.add_argument("--flush-rows", type=int, help="flush also after this many rows")
    append.add_argument("--roll-bytes", type=int, default=256 << 20, help="size of a file (default: 268435456)")
    append.add_argument("--roll-rows", type=int, help="most rows of a file (default: any number)")
    append.add_argument("--roll-seconds", type=float, help="a file is complete after this time (default: never)")
    append.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from data.append.appender import Appender, Roll

    schema = _schema(args)
    for option in ("flush_seconds", "flush_rows"):
        value = getattr(args, option)
        if value is not None and not value > 0:
            raise UserError(f"--{option.replace('_', '-')}: expected a number above 0, found {value}")
    try:
        roll = Roll(args.roll_bytes, args.roll_rows, args.roll_seconds)
    except ValueError as error:
        raise UserError(f"--roll-{error}") from error
    with _Stop() as stopped, Appender(args.out, schema, roll, flush_seconds=args.flush_seconds) as appender:
        for one in appender.recovered:
            text = f"append: finished {one.path} of a run that did not end: {_count(one.rows, 'row')}"
            print(text, file=sys.stderr)
            for copy in one.damaged:
                print(f"append: the disk lost rows of it that were flushed; what is left: {copy}", file=sys.stderr)
        stream = _Stream(appender, schema, args.on_bad == "skip", args.flush_rows)
        stream.read(stopped)
    bad = f", {_count(stream.bad, 'bad line')} left out (the first: {stream.first_bad})" if stream.bad else ""
    print(f"{_count(appender.rows, 'row')} in {_count(len(appender.files), 'file')}{bad}")
    for path in appender.files:
        print(f"       {path}")
    return 130 if stopped.signal == signal.SIGINT else 0


def _count(many: int, name: str) -> str:
    return f"{many:,} {name}{'' if many == 1 else 's'}"


class _Stop:
    """SIGINT and SIGTERM, once each: the stream ends there as if it had been closed."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __enter__(self) -> _Stop:
        self._before = {number: signal.signal(number, self._come) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _come(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(number, signal.SIG_DFL)  # again: at once


class _Stream:
    """Lines on their way to an appender."""

    def __init__(self, appender: Appender, schema: pa.Schema, skip_bad: bool, flush_rows: int | None):
        from data.append.rows import RowChecker

        self.bad = 0
        self.first_bad = ""
        self._appender = appender
        self._checker = RowChecker(schema)
        self._skip_bad = skip_bad
        self._flush_rows = flush_rows
        self._unflushed = 0
        self._line = 0
        self._start = self._shown = time.monotonic()

    def read(self, stopped: _Stop) -> None:
        """Appends all lines. Raises `UserError` for a bad one, after everything before it was flushed."""
        for lines in _lines(sys.stdin.fileno(), stopped):
            rows, error = self._rows(lines)
            while rows:
                take = len(rows) if self._flush_rows is None else min(len(rows), self._flush_rows - self._unflushed)
                self._appender.write_checked(rows[:take])
                rows = rows[take:]
                self._unflushed += take
                if self._unflushed == self._flush_rows:
                    self._appender.flush()
                    self._unflushed = 0
            if error is not None:
                self._appender.flush()
                raise UserError(error)
            self._appender.tick()
            self._show()

    def _rows(self, lines: list[bytes]) -> tuple[list[tuple[Any, ...]], str | None]:
        """The rows of lines, up to the first bad one when those are not left out; and what is wrong with that."""
        from data.errors import DataError

        rows = []
        for line in lines:
            self._line += 1
            if not line.strip():
                continue
            where = f"line {self._line}"
            try:
                rows.append(self._checker.row(_json(line, where), where))
            except DataError as error:
                if not self._skip_bad:
                    return rows, str(error)
                self.bad += 1
                self.first_bad = self.first_bad or str(error)
        return rows, None

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SILENCE_SECONDS:
            self._shown = now
            rows = self._appender.rows
            bad = f", {_count(self.bad, 'bad line')} left out" if self.bad else ""
            rate = rows / (now - self._start)
            files = _count(len(self._appender.files), "file")
            text = f"append: {_count(rows, 'row')}, {rate:,.0f} rows/s, {files} complete{bad}"
            print(text, file=sys.stderr, flush=True)


def _lines(source: int, stopped: _Stop) -> Iterator[list[bytes]]:
    """Whole lines as they come, without their ends; an empty list from time to time when none come."""
    rest = b""
    number = 0
    while stopped.signal is None:
        ready, _, _ = select.select([source], [], [], _WAIT_SECONDS)
        if not ready:
            yield []
            continue
        piece = os.read(source, _READ_BYTES)
        if not piece:
            if rest:
                yield [rest]
            return
        first, *others = piece.split(b"\n")
        if not others:
            rest += piece
        else:
            lines = [rest + first, *others[:-1]]
            rest = others[-1]
            number += len(lines)
            yield lines
        if len(rest) > _LONGEST_LINE_BYTES:
            raise UserError(f"line {number + 1}: expected at most {_LONGEST_LINE_BYTES:,} bytes, found more")


def _json(line: bytes, where: str) -> Any:
    from data.errors import DataError

    try:
        # Bytes as they are could be taken for UTF-16; a mark of UTF-8 at the start is left out.
        return json.loads(line.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: expected JSON in UTF-8, found {error}") from error
    except (ValueError, RecursionError) as error:
        text = line[:40].decode("utf-8", "replace")
        raise DataError(f"{where}: expected a JSON object, found {text!r} ({error})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)} is there twice")
    return fields


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _schema(args: argparse.Namespace) -> pa.Schema:
    """The columns to write: of the options, which must agree with the files that are in OUT already."""
    import pyarrow as pa

    from data.append.rows import TYPES, orc_schema

    if args.like and args.column:
        raise UserError("--column: expected either --like or --column, found both")
    if os.path.lexists(args.out) and not os.path.isdir(args.out):
        raise UserError(f"{args.out}: expected a folder or nothing, found a file")
    there = sorted(glob.glob(os.path.join(glob.escape(args.out), "*.orc")))
    schema = _file_schema(args.like) if args.like else _file_schema(there[-1]) if there and not args.column else None
    if schema is None:
        fields = []
        for text in args.column:
            name, _, kind = text.rpartition(":")
            if not name or kind not in TYPES:
                raise UserError(
                    f"--column: expected NAME:TYPE with one of the types {', '.join(TYPES)}; found {text!r}"
                )
            fields.append((name, TYPES[kind]))
        if not fields:
            raise UserError(f"--column: expected the columns to write, because {args.out} has no ORC file yet")
        schema = pa.schema(fields)
    orc_schema(schema)
    if there and not _file_schema(there[-1]).equals(schema):
        raise UserError(f"{args.out}: expected ORC files with the columns to write, found others in {there[-1]}")
    return schema


def _file_schema(path: str) -> pa.Schema:
    from data.scan.raw_rows import open_orc

    return open_orc(path).schema.remove_metadata()
