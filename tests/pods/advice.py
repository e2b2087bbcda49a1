"""What `ps-cluster plan` says of a pod that had too little memory, asked in a pod like it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.pods.container import Container
from tests.pods.pods import Pod
from tests.pods.quantities import text_of

_PARTS = {"ps": "server", "worker": "worker"}
_LIMIT_SECONDS = 300.0


class Advice:
    """A pod without a limit that plans the job of another one."""

    def __init__(self, pod: Pod, start: Callable[[Pod, list[str], Path], Container], log: Path):
        """start: starts a container for a pod, with a command line and a log."""
        command = pod.workload.template.container.argv
        self._role, self._log = command[1], log
        log.unlink(missing_ok=True)
        name = f"{pod.workload.name}-plan"
        template = replace(pod.workload.template, container=replace(pod.workload.template.container, memory_bytes=None))
        planner = replace(pod, workload=replace(pod.workload, kind="Pod", name=name, template=template))
        self._container = start(planner, ["ps-cluster", "plan", command[2], "--json"], log)
        self._until = time.monotonic() + _LIMIT_SECONDS
        self.words: str | None = None

    def look(self) -> str | None:
        """One line as soon as there is one."""
        if self.words is None and self._container.exit_code() is not None:
            self._container.clean()
            self.words = self._read()
        return self.words

    def wait(self) -> str:
        """The line; waits for it."""
        while self.look() is None and time.monotonic() < self._until:
            time.sleep(0.1)
        return self.words or "`ps-cluster plan` did not end in time"

    def stop(self) -> None:
        """Gives it up."""
        self._container.send(signal.SIGKILL)
        self._container.wait()
        self._container.clean()

    def _read(self) -> str:
        try:
            text = self._log.read_text(encoding="utf-8", errors="replace")
            plan = json.loads(text[text.index("{\n") :])
            asked = plan[_PARTS[self._role]]["memory_request_bytes"]["value"]
        except (ValueError, KeyError, TypeError):
            return f"`ps-cluster plan` says nothing of its memory; see {self._log}"
        return f"`ps-cluster plan` asks for {text_of(int(asked))} for each {self._role}"


def can_be_asked(pod: Pod) -> bool:
    """Whether the pod runs a job file."""
    command = pod.workload.template.container.argv
    return len(command) > 2 and command[0] == "ps-cluster" and command[1] in _PARTS
