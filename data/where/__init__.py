"""Conditions on a row, such as `day >= 20260101 and country in (3, 7)`: parsed, checked, evaluated.

The language is a subset of Python's expressions: column names; integer, float and boolean constants; `==`, `!=`, `<`,
`<=`, `>`, `>=` (also chained) between a column and a constant; `in` and `not in` a tuple or list of constants;
`is None` and `is not None`; `and`, `or`, `not`; parentheses.

The values are SQL's: a comparison with null is unknown, so is its `not`, and a row is kept only when its condition is
true. Numbers are compared exactly, whatever their types: a `float` column holds float32 numbers, so it never equals the
constant `0.1`, which float32 cannot hold. NaN compares as in Python and C++: only `!=` and `not in` are true of it.
"""

from data.where.evaluate import comparable, mask, members, type_problems
from data.where.parser import WhereError, parse
from data.where.postfix import AND, COMPARE, FLOAT, IN, INTEGER, IS_NULL, NOT, OR, Program, program
from data.where.tree import (
    INT64_MAX,
    INT64_MIN,
    OPERATORS,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Node,
    Not,
    Or,
    Where,
)

__all__ = [
    "AND",
    "COMPARE",
    "FLOAT",
    "IN",
    "INT64_MAX",
    "INT64_MIN",
    "INTEGER",
    "IS_NULL",
    "NOT",
    "OPERATORS",
    "OR",
    "And",
    "Compare",
    "Constant",
    "In",
    "IsNull",
    "Node",
    "Not",
    "Or",
    "Program",
    "Where",
    "WhereError",
    "comparable",
    "mask",
    "members",
    "parse",
    "program",
    "type_problems",
]
