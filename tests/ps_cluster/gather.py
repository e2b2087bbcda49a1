"""An allgather between real processes over sockets: what Horovod does for workers, without Horovod."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

# Not fork: the test process may run TensorFlow's threads; a forked child could wait for their locks for ever.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["ps_cluster.metrics"])


def on_workers(work: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """`work(allgather, *arguments[rank])` in one process per rank; their results, an error as its text.

    Fails when the workers do not make the same calls: another dtype, or another number of them.
    """
    pipes = [_context.Pipe() for _ in arguments]
    processes = [
        _context.Process(target=_worker, args=(theirs, work, arguments[rank]), daemon=True)
        for rank, (_, theirs) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    try:
        return _serve([ours for ours, _ in pipes])
    finally:
        for process in processes:
            process.join(10)
            if process.is_alive():
                process.kill()


def _serve(connections: list[Connection]) -> list[Any]:
    while True:
        messages = [connection.recv() for connection in connections]
        kinds = {kind for kind, _ in messages}
        assert len(kinds) == 1, f"workers do different things: {[kind for kind, _ in messages]}"
        if kinds == {"result"}:
            return [value for _, value in messages]
        whole = np.concatenate([value for _, value in messages])
        for connection in connections:
            connection.send(whole)


def _worker(connection: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    def allgather(array: np.ndarray) -> np.ndarray:
        assert array.ndim == 1
        connection.send((f"gather {array.dtype}", array))
        return connection.recv()

    try:
        result = work(allgather, *arguments)
    except Exception as error:
        result = f"{type(error).__name__}: {error}"
    connection.send(("result", result))
