"""What a model is told about one of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class InputSpec:
    """An input by name: its kind, its width, and what a sequence is attended with."""

    name: str
    kind: Literal["vector", "sequence", "dense"]
    dim: int  # width of the vector / of a sequence element; 1 for dense
    query: str | None = (
        None  # sequence only: name of the vector input that attends to it; None = learned query
    )
