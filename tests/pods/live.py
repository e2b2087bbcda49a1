"""A pod that is there: its container, its link, its probes, and what is to become of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.pods.container import Container
from tests.pods.network import Link
from tests.pods.pods import Pod
from tests.pods.probes import Asking


@dataclass
class Live:
    """`container`, `link`, `asking`: None while a container that has ended waits to be started again."""

    pod: Pod
    log: Path
    container: Container | None = None
    link: Link | None = None
    asking: Asking | None = None
    began: float = 0.0
    starts: int = 0
    again_at: float = 0.0
    pause_seconds: float = 0.0
    is_ready: bool = False
    told_wrong: str = ""
    disrupted: bool = False
    """Drained, evicted or pre-empted: its end need not count."""
    deleted: bool = False
    """It was told to end, and is not started again in its place."""
    kill_at: float | None = None
    """When SIGKILL follows SIGTERM."""
    ended: int | None = None
    """Exit code of a pod that is over."""

    @property
    def name(self) -> str:
        """By what it is told of."""
        return self.pod.host if self.pod.attempt == 0 else f"{self.pod.host} (attempt {self.pod.attempt + 1})"
