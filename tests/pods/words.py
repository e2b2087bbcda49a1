"""How pods and Jobs ended, in words."""

from __future__ import annotations

import signal

from tests.pods.container import Container
from tests.pods.job_controller import COMPLETE, Outcome
from tests.pods.quantities import text_of


def how_it_ended(code: int, container: Container, memory_bytes: int | None) -> str:
    """One sentence without its subject."""
    if container.out_of_memory():
        limit = f" of {text_of(memory_bytes)}" if memory_bytes is not None else ""
        return f"was OOMKilled with exit code {code}: it wanted more memory than its limit{limit}"
    if code > 128:
        try:
            how = signal.Signals(code - 128).name
        except ValueError:
            how = f"signal {code - 128}"
        how = container.killed_by or how
        return f"ended with exit code {code} ({how})"
    return f"ended with exit code {code}"


def last_line(message: str) -> str:
    """Of a termination message."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def outcome_words(outcome: Outcome) -> str:
    """How a Job ended."""
    if outcome.status == COMPLETE:
        return "is complete"
    return f"has failed: {outcome.reason}: {outcome.message}"
