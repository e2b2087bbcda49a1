"""A word to a harness that runs, through a socket in its folder."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ps_cluster.errors import RunError, UserError
from tests.pods.run_folder import place_of

_SOCKET = "control"
_ANSWER_SECONDS = 60.0


@dataclass
class Request:
    """What is asked: a verb, and the pods that it is for. `answer` takes what is said to it."""

    verb: str
    pods: list[str]
    answer: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)

    def reply(self, ok: bool, **told: Any) -> None:
        self.answer.put({"ok": ok, **told})


class Control:
    """Takes requests in a thread of its own; the harness gets them when it looks."""

    def __init__(self, place: Path):
        self._requests: queue.Queue[Request] = queue.Queue()
        self._path = place / _SOCKET
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self._path))
        self._socket.listen()
        threading.Thread(target=self._serve, name="control", daemon=True).start()

    def requests(self) -> list[Request]:
        """Those that have come since the last look."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._requests.get_nowait())
        return found

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError, queue.Empty), connection.makefile("rw") as stream:
            told = json.loads(stream.readline())
            request = Request(told["verb"], told["pods"])
            self._requests.put(request)
            stream.write(json.dumps(request.answer.get(timeout=_ANSWER_SECONDS)) + "\n")
            stream.flush()


def ask(folder: Path, verb: str, pods: list[str]) -> dict[str, Any]:
    """Says a word to the harness of a folder; returns its answer.

    Raises:
      UserError: there is none.
      RunError: it does what was asked not; says why.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(str(place_of(folder) / _SOCKET))
        except OSError as error:
            raise UserError(f"--folder: expected one of pods that run, found {folder} ({error.strerror})") from None
        with connection.makefile("rw") as stream:
            stream.write(json.dumps({"verb": verb, "pods": pods}) + "\n")
            stream.flush()
            line = stream.readline()
    if not line:
        raise RunError(f"{verb}: the pods have ended meanwhile")
    answer: dict[str, Any] = json.loads(line)
    if not answer.pop("ok"):
        raise RunError(f"{verb}: {answer['why']}")
    return answer
