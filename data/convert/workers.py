"""Processes that do tasks for one owner and end with it.

Each is `python -m data.convert.workers`, with a socket to its owner. A task is a method's name and arguments; what it
reports on its way and what it gives come back over the socket. The socket also tells a worker that its owner is gone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from data.errors import DataError

Task = tuple[str, tuple[Any, ...]]

_END_SECONDS = 1.0


class WorkerError(RuntimeError):
    """A worker that failed or was killed."""


def run_tasks(
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    tasks: Iterable[Task],
    processes: int,
    report: Callable[[Any], None],
) -> list[Any]:
    """The results of all tasks, in their order.

    A task is done by a method of `make(*arguments)`, an object that each process makes once; the method gets a function
    as its last argument that passes a report on. With one process it is this one. Raises what a task raised.
    """
    tasks = list(tasks)
    processes = min(processes, len(tasks))
    if processes <= 1:
        worker = make(*arguments) if tasks else None
        try:
            return [getattr(worker, name)(*values, report) for name, values in tasks]
        finally:
            if worker is not None:
                worker.close()
    workers: list[_Worker] = []
    try:
        for _ in range(processes):
            workers.append(_Worker())
        return _share_out(workers, (make, arguments), tasks, report)
    finally:
        for one in workers:
            one.stop()


class _Worker:
    """One process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "data.convert.workers", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # The folder of this very package comes first in the path, whatever the user's folder holds.
                env={**os.environ, "PYTHONPATH": _python_path()},
                # Ctrl-C goes to the owner, which then ends us.
                start_new_session=True,
            )
        self.connection = Connection(ours.detach())
        self.task: int | None = None

    def stop(self) -> None:
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


def _python_path() -> str:
    root = str(Path(__file__).resolve().parents[2])
    rest = os.environ.get("PYTHONPATH")
    return f"{root}{os.pathsep}{rest}" if rest else root


def _share_out(
    workers: list[_Worker], setup: tuple[Any, ...], tasks: list[Task], report: Callable[[Any], None]
) -> list[Any]:
    results: list[Any] = [None] * len(tasks)
    following = iter(range(len(tasks)))
    busy: dict[Any, _Worker] = {}

    def next_task(worker: _Worker) -> None:
        worker.task = next(following, None)
        if worker.task is None:
            busy.pop(worker.connection, None)
        else:
            busy[worker.connection] = worker
            worker.connection.send(tasks[worker.task])

    try:
        for worker in workers:
            worker.connection.send(setup)
            next_task(worker)
        while busy:
            for connection in wait(list(busy)):
                worker = busy[connection]
                kind, value = connection.recv()  # type: ignore[call-arg, union-attr]
                if kind == "report":
                    report(value)
                elif kind == "done":
                    assert worker.task is not None
                    results[worker.task] = value
                    next_task(worker)
                elif kind == "data":
                    raise DataError(value)
                else:
                    raise WorkerError(value)
    except (EOFError, ConnectionError) as error:
        ended = _first_ended(workers)
        how = str(error) if ended is None else _how(ended.process.returncode)
        raise WorkerError(f"a process of the conversion ended: {how}; start it again to continue") from None
    return results


def _first_ended(workers: list[_Worker]) -> _Worker | None:
    """A process that has ended; one whose connection has just closed may take a moment."""
    until = time.monotonic() + _END_SECONDS
    while True:
        for worker in workers:
            if worker.process.poll() is not None:
                return worker
        if time.monotonic() >= until:
            return None
        time.sleep(0.01)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


def _end_with_owner(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # only the end of the connection
    poll.poll()
    os._exit(1)


def main(descriptor: int) -> None:
    """Does tasks until the owner closes the connection."""
    threading.Thread(target=_end_with_owner, args=(descriptor,), daemon=True).start()
    connection = Connection(descriptor)
    make, arguments = connection.recv()
    worker = make(*arguments)
    while True:
        name, values = connection.recv()
        try:
            result = getattr(worker, name)(*values, lambda value: connection.send(("report", value)))
        except DataError as error:
            connection.send(("data", str(error)))
        except Exception as error:
            words = error.strerror if isinstance(error, OSError) and error.strerror else error
            where = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
            if not isinstance(error, OSError):
                traceback.print_exc()
            connection.send(("failed", f"{where}{words}"))
        else:
            connection.send(("done", result))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except (EOFError, ConnectionError):
        sys.exit(0)
