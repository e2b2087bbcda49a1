"""What the trainer of an output folder told last."""

from __future__ import annotations

from pathlib import Path

from ps_cluster.train.last_step import LAST_STEP, LastStep, LastStepFile


def last_told(output: Path) -> LastStep:
    """All zeros before it told anything."""
    path = output / LAST_STEP
    if not path.exists():
        return LastStep(0, 0, 0, 0)
    file = LastStepFile(str(path))
    try:
        return file.read() or LastStep(0, 0, 0, 0)
    finally:
        file.close()
