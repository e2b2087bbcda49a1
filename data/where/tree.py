"""A condition as a tree of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Constant = Union[int, float]


@dataclass(frozen=True)
class Compare:
    """`column operator constant`."""

    column: str
    operator: str
    """One of `OPERATORS`."""
    constant: Constant


@dataclass(frozen=True)
class In:
    """`column in (constants)`; at least one."""

    column: str
    constants: tuple[Constant, ...]


@dataclass(frozen=True)
class IsNull:
    """`column is None`: true or false, never unknown."""

    column: str


@dataclass(frozen=True)
class And:
    """All of at least two operands."""

    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """One of at least two operands."""

    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Not:
    """Swaps true and false; unknown stays unknown."""

    operand: Node


Node = Union[Compare, In, IsNull, And, Or, Not]


@dataclass(frozen=True)
class Where:
    """A condition; made by `parse`."""

    text: str
    columns: tuple[str, ...]
    """Names of the columns it needs, in order of first use; at least one."""
    root: Node
