"""An allgather between real processes over pipes: what Horovod does for workers, without Horovod."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np


class Workers:
    """Processes that run the same function on shares of their own, and can gather arrays meanwhile."""

    def __init__(self, count: int):
        # Not fork: the test process may run TensorFlow's threads; a child could wait for their locks.
        context = multiprocessing.get_context("spawn")
        pipes = [context.Pipe() for _ in range(count)]
        self._connections = [ours for ours, _ in pipes]
        self._processes = [context.Process(target=_serve, args=(theirs,), daemon=True) for _, theirs in pipes]
        for process in self._processes:
            process.start()
        for _, theirs in pipes:
            theirs.close()

    def run(self, work: Callable[..., Any], shares: list[tuple[Any, ...]]) -> list[Any]:
        """`work(allgather, *share)` in one process per share; their results, an error as its text.

        Fails when the workers do not make the same calls: another dtype, or another number of them.
        """
        connections = self._connections[: len(shares)]
        for connection, share in zip(connections, shares, strict=True):
            connection.send((work, share))
        while True:
            messages = [connection.recv() for connection in connections]
            kinds = [kind for kind, _ in messages]
            assert len(set(kinds)) == 1, f"workers do different things: {kinds}"
            if kinds[0] == "result":
                return [value for _, value in messages]
            whole = np.concatenate([value for _, value in messages])
            for connection in connections:
                connection.send(whole)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(10)
            process.kill()


def _serve(connection: Connection) -> None:
    def allgather(array: np.ndarray) -> np.ndarray:
        assert array.ndim == 1
        connection.send((f"gather {array.dtype}", array))
        return connection.recv()

    while True:
        try:
            work, share = connection.recv()
        except EOFError:
            return
        try:
            result = work(allgather, *share)
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        connection.send(("result", result))
