"""What is wanted of one column of a sample file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """A column by name, the type its values are handed over in, and what stands for a null."""

    name: str
    kind: Literal["int64", "float32", "int64_list"]
    missing: int | float | Literal["empty"] | None = None  # None: a null is a DataError
    max_length: int | None = None  # int64_list: keep the last n
