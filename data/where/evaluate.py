"""Which rows of Arrow columns a condition keeps, in NumPy.

Every node of its tree gives two bool arrays: the rows where it is true and those where it is false.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.where.tree import INT64_MAX, INT64_MIN, And, Constant, In, IsNull, Node, Not, Or, Where

_SHOWN_COLUMNS = 12


def type_problems(where: Where, schema: pa.Schema, path: str) -> list[str]:
    """A line for each column of `where` that the file `path` with `schema` lacks, or holds as no number."""
    problems = []
    for name in where.columns:
        place = f"{path}: column {name}: expected an integer, boolean, float or double, as where compares it"
        count = schema.names.count(name)
        if count == 0:
            near = difflib.get_close_matches(name, schema.names, n=1)
            has = ", ".join(schema.names[:_SHOWN_COLUMNS]) + (", …" if len(schema.names) > _SHOWN_COLUMNS else "")
            hint = f"did you mean {near[0]}?" if near else f"the file has: {has or 'none'}"
            problems.append(f"{place}, found no such column; {hint}")
        elif count > 1:
            problems.append(f"{place}, found {count} columns of that name")
        elif not comparable(schema.field(name).type):
            problems.append(f"{place}, found {schema.field(name).type}")
    return problems


def comparable(kind: pa.DataType) -> bool:
    """Whether a column of this type may stand in a condition."""
    return pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind)


def mask(where: Where, columns: Mapping[str, pa.Array]) -> np.ndarray:
    """bool `[rows]`: which rows `where` keeps. `columns` holds at least `where.columns`, all of one length."""
    cache: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def column(name: str) -> tuple[np.ndarray, np.ndarray]:
        if name not in cache:
            cache[name] = _numbers(columns[name])
        return cache[name]

    return _truth(where.root, column)[0]


def _truth(node: Node, column: Callable[[str], tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(node, Not):
        true, false = _truth(node.operand, column)
        return false, true
    if isinstance(node, (And, Or)):
        pairs = [_truth(operand, column) for operand in node.operands]
        trues, falses = [true for true, _ in pairs], [false for _, false in pairs]
        if isinstance(node, And):
            return np.logical_and.reduce(trues), np.logical_or.reduce(falses)
        return np.logical_or.reduce(trues), np.logical_and.reduce(falses)
    values, valid = column(node.column)
    if isinstance(node, IsNull):
        return ~valid, valid
    if isinstance(node, In):
        found = np.isin(values, members(node.constants, values.dtype.kind == "i"))
    else:
        found = _compare(values, node.operator, node.constant)
    return found & valid, ~found & valid


def _numbers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Values int64 or float64 `[rows]` (anything where null), and bool `[rows]`: not null."""
    wide = pa.float64() if pa.types.is_floating(array.type) else pa.int64()
    values = array.cast(wide)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(0, wide))
    return values.to_numpy(zero_copy_only=False), valid


def members(constants: Sequence[Constant], integers: bool) -> np.ndarray:
    """int64 or float64: those of `constants` that an integer or a float column can equal, as it holds them."""
    if integers:
        whole = [int(c) for c in constants if not isinstance(c, float) or c.is_integer()]
        return np.array([c for c in whole if INT64_MIN <= c <= INT64_MAX], np.int64)
    # Python compares an int and a float exactly.
    return np.array([float(c) for c in constants if float(c) == c], np.float64)


_NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _compare(values: np.ndarray, operator: str, constant: Constant) -> np.ndarray:
    """bool `[rows]`: `values operator constant`, exactly."""
    if values.dtype.kind == "i":
        return _compare_integers(values, operator, constant)
    bound = float(constant)
    if bound != constant:
        # No double lies between an integer that is none itself and the double nearest to it.
        if operator in ("==", "!="):
            return np.full(len(values), operator == "!=")
        above = bound > constant
        operator = {"<": "<", "<=": "<", ">": ">=", ">=": ">="}[operator] if above else operator[0]
        operator = operator if above else {"<": "<=", ">": ">"}[operator]
    return _NUMPY[operator](values, bound)


def _compare_integers(values: np.ndarray, operator: str, constant: Constant) -> np.ndarray:
    if isinstance(constant, float) and not (math.isfinite(constant) and constant.is_integer()):
        if operator in ("==", "!="):
            return np.full(len(values), operator == "!=")
        if math.isinf(constant):
            return np.full(len(values), (constant > 0) == (operator[0] == "<"))
        # Nothing lies between the constant and the next integer: x < 2.5 is x <= 2, and so is x <= 2.5.
        constant, operator = math.floor(constant), {"<": "<=", ">": ">"}[operator[0]]
    bound = int(constant)
    if not INT64_MIN <= bound <= INT64_MAX:
        above = bound > INT64_MAX
        return np.full(len(values), operator == "!=" or (operator != "==" and above == (operator[0] == "<")))
    return _NUMPY[operator](values, bound)
