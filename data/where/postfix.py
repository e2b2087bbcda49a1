"""A condition in postfix form, as the op library evaluates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data.where.tree import OPERATORS, And, Compare, Constant, In, IsNull, Node, Not, Where

COMPARE, IN, IS_NULL, AND, OR, NOT = range(6)
INTEGER, FLOAT = range(2)


class Program(NamedTuple):
    """A condition in postfix form, for the op library. Of three values: 0 false, 1 true, 2 unknown."""

    code: np.ndarray
    """int64 `[n, 5]`, a row `[op, a, b, c, d]` each:

    - `COMPARE`: column a (position in the names given), operator b (position in `OPERATORS`), constant of kind c
      (`INTEGER` or `FLOAT`) at position d;
    - `IN`: column a, constants of kind c at positions b to b + d - 1;
    - `IS_NULL`: column a;
    - `AND`, `OR`: take the a values on top of the stack; `NOT`: takes one.
    """
    ints: np.ndarray
    """int64 `[k]`: integer constants; booleans are 0 and 1."""
    floats: np.ndarray
    """float64 `[m]`."""


def program(where: Where, names: Sequence[str]) -> Program:
    """`where` for C++, with columns as positions in `names`, which holds at least `where.columns`."""
    code: list[tuple[int, int, int, int, int]] = []
    ints: list[int] = []
    floats: list[float] = []

    def put(constants: Sequence[Constant]) -> tuple[int, int]:
        """Stores constants of one kind; the kind and the position of the first."""
        if isinstance(constants[0], float):
            floats.extend(float(value) for value in constants)
            return FLOAT, len(floats) - len(constants)
        ints.extend(int(value) for value in constants)
        return INTEGER, len(ints) - len(constants)

    def emit(node: Node) -> None:
        if isinstance(node, Compare):
            kind, position = put([node.constant])
            code.append((COMPARE, names.index(node.column), OPERATORS.index(node.operator), kind, position))
        elif isinstance(node, In):
            groups = [[c for c in node.constants if isinstance(c, float) == is_float] for is_float in (False, True)]
            groups = [group for group in groups if group]
            for group in groups:
                kind, position = put(group)
                code.append((IN, names.index(node.column), position, kind, len(group)))
            if len(groups) > 1:
                code.append((OR, len(groups), 0, 0, 0))
        elif isinstance(node, IsNull):
            code.append((IS_NULL, names.index(node.column), 0, 0, 0))
        elif isinstance(node, Not):
            emit(node.operand)
            code.append((NOT, 0, 0, 0, 0))
        else:
            for operand in node.operands:
                emit(operand)
            code.append((AND if isinstance(node, And) else OR, len(node.operands), 0, 0, 0))

    emit(where.root)
    return Program(np.array(code, np.int64), np.array(ints, np.int64), np.array(floats, np.float64))
