"""Traces on request: a request is a file in the output folder, which the worker looks for between its steps."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

FOLDER = "trace"
"""In the output folder."""
_LOOK_SECONDS = 1.0


class TraceRequests:
    """A worker's side: starts TensorFlow's profiler when somebody has asked for it, and stops it some steps later.

    Traces lie where TensorBoard looks for them: those of worker 0 beside the scalars of the run, those of another
    worker in a folder of its own.
    """

    def __init__(self, output: str, worker: int = 0):
        self._output = output
        self._worker = worker
        self._logs = os.path.join(output, "tensorboard", *([f"worker-{worker}"] if worker else []))
        self._looked = time.monotonic()
        self._steps_left = 0
        self._answer: dict[str, Any] = {}

    def between_steps(self, step: int) -> None:
        """Call it after every step, `step` in number; looks for a request once a second."""
        import tensorflow as tf

        if self._steps_left:
            self._steps_left -= 1
            if not self._steps_left:
                with self._told():
                    tf.profiler.experimental.stop()
                    self._answer["last_step"] = step
                self._write()
        elif time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            request = self._take()
            if request is not None:
                self._answer = {"id": request.get("id"), "folder": self._logs, "first_step": step + 1}
                with self._told():
                    self._steps_left = max(int(request["steps"]), 1)
                    tf.profiler.experimental.start(self._logs)
                if "problem" in self._answer:
                    self._steps_left = 0
                    self._write()

    def _take(self) -> dict[str, Any] | None:
        path = _request(self._output, self._worker)
        try:
            text = path.read_text(encoding="utf-8")
            path.unlink()
            request = json.loads(text)
        except (OSError, ValueError):
            return None
        return request if isinstance(request, dict) else None

    @contextlib.contextmanager
    def _told(self):
        """Whatever the profiler says against it, training goes on."""
        try:
            yield
        except Exception as error:
            self._answer["problem"] = f"{type(error).__name__}: {error}"

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            write_whole(_answer(self._output, self._worker), self._answer)


def ask(output: str, steps: int, worker: int = 0) -> str:
    """Asks a worker for a trace of so many steps; returns the request's id."""
    Path(output, FOLDER).mkdir(exist_ok=True)
    name = f"{os.getpid()}-{time.time_ns()}"
    write_whole(_request(output, worker), {"id": name, "steps": steps})
    return name


def withdraw(output: str, worker: int = 0) -> None:
    """Takes back a request that nobody has taken."""
    _request(output, worker).unlink(missing_ok=True)


def answer_to(output: str, name: str, worker: int = 0) -> dict[str, Any] | None:
    """The answer to a request; None: not yet."""
    try:
        answer = json.loads(_answer(output, worker).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer if answer.get("id") == name else None


def _request(output: str, worker: int) -> Path:
    return Path(output, FOLDER, f"request-{worker}.json")


def _answer(output: str, worker: int) -> Path:
    return Path(output, FOLDER, f"answer-{worker}.json")


def write_whole(path: Path, content: dict[str, Any]) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(content) + "\n", encoding="utf-8")
    beside.replace(path)
