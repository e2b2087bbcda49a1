"""The reader process: decodes ORC beside the trainer and streams batches to it.

Usage: python -m data.read.arrow_server LISTENING_SOCKET_FD STATUS_FILE_FD, with a request (one JSON line,
`Request.to_json`) on standard input, which must stay open: the process ends when it is closed. Each
connection to the socket gets the whole stream of `data.read.stream_format`. The status file always holds one JSON
object: what is being read, or what went wrong.

No TensorFlow in here: the process starts in a fraction of a second and a busy trainer does not hold its lock.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import shutil
import socket
import sys
import threading
import traceback
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from data.columns import Column
from data.errors import DataError
from data.read.batches import Shard, batches
from data.read.read_spec import Position, ReadSpec
from data.read.stream_format import stream_schema, to_messages
from data.read.stripes import Part, Stripe
from data.sample.sampling import from_json, to_json
from data.where import parse

_SEND_GRACE_SECONDS = 0.5
_TOGETHER_ROWS = 16_384
"""A message costs about as much as 500 rows of few columns, so batches of fewer rows travel together."""
_SEND_BUFFER_BYTES = 2**15
"""Shorter pieces of a message are joined."""
_STATUS_TEXT_MAX = 20_000


@dataclass(frozen=True)
class Request:
    """Everything the process needs to know."""

    shard: Shard
    threads: int
    """Threads that decode."""
    parent: int
    """Process id of the trainer; the reader ends when it does."""
    working_folder: str
    """Where relative paths start."""
    socket_folder: str
    """Removed when the process ends."""
    key: int
    """Of the seals in this reader's stream."""

    def to_json(self) -> str:
        """One line."""
        spec = self.shard.spec
        paths = list(dict.fromkeys(part.stripe.path for part in self.shard.parts))
        number = {path: i for i, path in enumerate(paths)}
        parts = [
            (number[p.stripe.path], p.stripe.index, p.stripe.first_row, p.stripe.rows, p.start, p.rows, p.step)
            for p in self.shard.parts
        ]
        fields = {
            **asdict(replace(spec, paths=(), where=None, sampling=None)),
            "where": spec.where.text if spec.where else None,
            "sampling": to_json(spec.sampling) if spec.sampling else None,
        }
        # A path may hold bytes that are not UTF-8 (surrogates in Python); JSON's ASCII escapes carry them.
        request = {
            "spec": fields,
            "paths": paths,
            "parts": parts,
            "kept": None if self.shard.kept is None else self.shard.kept.tolist(),
            "threads": self.threads,
            "parent": self.parent,
            "working_folder": self.working_folder,
            "socket_folder": self.socket_folder,
            "key": self.key,
        }
        return json.dumps(request, ensure_ascii=True)

    @staticmethod
    def from_json(text: str) -> Request:
        """The inverse of `to_json`; paths without parts are left out."""
        request: dict[str, Any] = json.loads(text)
        fields, paths, parts, kept = (request.pop(name) for name in ("spec", "paths", "parts", "kept"))
        spec = ReadSpec(
            **{
                **fields,
                "paths": tuple(paths),
                "columns": tuple(Column(**column) for column in fields["columns"]),
                "where": parse(fields["where"]) if fields["where"] else None,
                "sampling": from_json(fields["sampling"]) if fields["sampling"] else None,
                "start": Position(*fields["start"]),
            }
        )
        parts = tuple(
            Part(Stripe(paths[path], index, first_row, stripe_rows), start, rows, step)
            for path, index, first_row, stripe_rows, start, rows, step in parts
        )
        return Request(Shard(spec, parts, None if kept is None else np.array(kept, np.int64)), **request)


class Status:
    """The status file; it stays readable for the trainer however this process ends."""

    def __init__(self, fd: int):
        self._fd = fd
        self._lock = threading.Lock()
        self._failed = False
        self._reading: list[Part] = []

    def reading(self, part: Part) -> None:
        """About to decode `part`: names the culprit should the decoder crash."""
        with self._lock:
            self._reading.append(part)
            self._write_reading()

    def read(self, part: Part) -> None:
        """Decoded it."""
        with self._lock:
            self._reading.remove(part)
            if self._reading:  # else what was read last is told on: it is what came before a crash elsewhere
                self._write_reading()

    def failed(self, kind: str, text: str) -> None:
        """The first failure is the one that counts. `kind`: "data" (the samples are wrong) or "reader"."""
        with self._lock:
            if not self._failed:
                self._failed = True
                self._write({"failed": kind, "text": text[:_STATUS_TEXT_MAX]})

    def _write_reading(self) -> None:
        if not self._failed:
            parts = [f"{part.stripe.path}, stripe {part.stripe.index}" for part in self._reading]
            self._write({"reading": " or ".join(dict.fromkeys(parts))[:_STATUS_TEXT_MAX]})

    def _write(self, status: dict[str, str]) -> None:
        line = json.dumps(status).encode() + b"\n"
        os.pwrite(self._fd, line, 0)
        os.ftruncate(self._fd, len(line))


class Server:
    """Serves one request on a listening socket, each connection in a thread of its own."""

    def __init__(self, request: Request, listener: socket.socket, status: Status):
        self._request = request
        self._listener = listener
        self._status = status
        self._stopping = threading.Event()
        self._senders: list[threading.Thread] = []

    def run(self) -> None:
        """Accepts connections until the process ends."""
        while True:
            connection, _ = self._listener.accept()
            sender = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._senders = [s for s in self._senders if s.is_alive()] + [sender]
            sender.start()

    def end_with_parent(self) -> None:
        """Waits until the trainer closes our standard input or is gone, then ends the process.

        The pipe tells at once, also when the trainer is killed. The parent's id is looked at as well, because
        a process forked by the trainer may hold the pipe open. (PR_SET_PDEATHSIG would end us when the
        *thread* that started us ends.)
        """
        while os.getppid() == self._request.parent:
            readable, _, _ = select.select([0], [], [], 1.0)
            if readable and not os.read(0, 1):
                break
        self.stop(0)

    def stop(self, code: int) -> None:
        """Ends the process, after the messages that are being sent.

        Half a message may crash tensorflow-io's client. A sender that makes no headway has a client that is
        not reading, so that one does not matter.
        """
        self._stopping.set()
        for sender in self._senders:
            if sender is not threading.current_thread():
                sender.join(_SEND_GRACE_SECONDS)
        shutil.rmtree(self._request.socket_folder, ignore_errors=True)
        os._exit(code)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._send_all(connection)
                return
            except (BrokenPipeError, ConnectionResetError):
                return  # the trainer dropped its iterator
            except DataError as error:
                self._status.failed("data", str(error))
            except BaseException as error:
                traceback.print_exc()
                self._status.failed("reader", f"{type(error).__name__}: {error}")
            # The connection closes only now: the trainer finds the cause as soon as it sees the end.
        # The whole process ends: tensorflow-io connects again after an error and would start from the first
        # batch.
        self._listener.close()
        self.stop(1)

    def _send_all(self, connection: socket.socket) -> None:
        request = self._request
        schema = stream_schema(request.shard.spec)
        stream = batches(request.shard, request.threads, self._status, _TOGETHER_ROWS)
        number = 0
        with contextlib.closing(stream), connection.makefile("wb", _SEND_BUFFER_BYTES) as file:
            writer = pa.ipc.new_stream(file, schema)
            for ready in stream:
                for message in to_messages(ready, schema, request.key, number):
                    if self._stopping.is_set():
                        return
                    writer.write_batch(message)
                    file.flush()
                number += len(ready)
                del ready, message  # the memory is needed for the next rows
            # Only now: a connection that ends without the end of the stream is an error at the receiver.
            writer.close()


def main(arguments: list[str]) -> None:
    """Runs until standard input closes, the parent dies, or reading fails."""
    faulthandler.enable()
    listener = socket.socket(fileno=int(arguments[0]))
    status = Status(int(arguments[1]))
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        sys.exit(0)  # the trainer ended before it had sent the request
    request = Request.from_json(line.decode("ascii"))
    os.chdir(request.working_folder)
    server = Server(request, listener, status)
    threading.Thread(target=server.end_with_parent, daemon=True).start()
    server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
