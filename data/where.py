"""Conditions on a row, such as `day >= 20260101 and country in (3, 7)`: parsed, checked, evaluated.

The language is a subset of Python's expressions: column names; integer, float and boolean constants; `==`, `!=`, `<`,
`<=`, `>`, `>=` (also chained) between a column and a constant; `in` and `not in` a tuple or list of constants;
`is None` and `is not None`; `and`, `or`, `not`; parentheses.

The values are SQL's: a comparison with null is unknown, so is its `not`, and a row is kept only when its condition is
true. Numbers are compared exactly, whatever their types: a `float` column holds float32 numbers, so it never equals the
constant `0.1`, which float32 cannot hold. NaN compares as in Python and C++: only `!=` and `not in` are true of it.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

OPERATORS = ("==", "!=", "<", "<=", ">", ">=")
COMPARE, IN, IS_NULL, AND, OR, NOT = range(6)
INTEGER, FLOAT = range(2)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_MAX_DEPTH = 100
_SHOWN_TEXT = 100
_SHOWN_COLUMNS = 12

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


class WhereError(ValueError):
    """A text that is no condition; one line that says what is wrong, and where."""

    def __init__(self, text: str, position: int, reason: str):
        self.text = text
        self.position = min(position, len(text))
        """Of the wrong character in `text`, from 0."""
        self.reason = reason
        start = max(0, self.position - _SHOWN_TEXT // 2)
        shown = text[start : start + _SHOWN_TEXT]
        shown = f"{'…' * (start > 0)}{shown}{'…' * (start + len(shown) < len(text))}"
        shown = re.sub(r"[^ -~…]", _escaped, shown)
        super().__init__(f'{reason} (character {self.position + 1} of "{shown}")')

    def pointed(self) -> str:
        """The text with a caret below the wrong character, in two lines."""
        line = re.sub(r"[\r\n\t\f]", " ", self.text)
        return f"{line}\n{' ' * self.position}^"


def _escaped(match: re.Match[str]) -> str:
    """The character as it is, or its escape where it would break the line."""
    character = match.group()
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def parse(text: str) -> Where:
    """The condition that `text` says. Raises `WhereError`."""
    root = _Parser(text).root()
    columns: dict[str, None] = {}
    _each_leaf(root, lambda leaf: columns.setdefault(leaf.column))
    return Where(text, tuple(columns), root)


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


def _each_leaf(node: Node, visit: Callable[[Compare | In | IsNull], object]) -> None:
    if isinstance(node, (And, Or)):
        for operand in node.operands:
            _each_leaf(operand, visit)
    elif isinstance(node, Not):
        _each_leaf(node.operand, visit)
    else:
        visit(node)


# Evaluation: every node gives two bool arrays, the rows where it is true and those where it is false.


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


# Parsing.

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# What other languages write, as (pattern, what to write).
_FOREIGN = (
    (r"&&?", "and"),
    (r"\|\|?", "or"),
    (r"<>", "!="),
    (r"!==|===?=", "=="),
    (r"=>", ">="),
    (r"=<", "<="),
    (r"(?<![=!<>:])=(?!=)|:=", "=="),
    (r"!(?!=)|~", "not"),
    (r"\b(?:AND|And)\b", "and"),
    (r"\b(?:OR|Or)\b", "or"),
    (r"\b(?:IS\s+NOT|is\s+NOT|IS\s+not)\b", "is not"),
    (r"\bIS\b", "is"),
    (r"\b(?:NOT|Not)\s+(?:IN|In|in)\b|\bnot\s+(?:IN|In)\b", "not in"),
    (r"\b(?:NOT|Not)\b", "not"),
    (r"\b(?:IN|In)\b", "in"),
    (r"\b(?i:between)\b", "low <= column <= high"),
    (r"#", "nothing (a condition has no comments)"),
)
_NAMES_OF_CONSTANTS = {"null": "None", "nil": "None", "none": "None", "true": "True", "false": "False"}


@dataclass(frozen=True)
class _Column:
    name: str


@dataclass(frozen=True)
class _Value:
    value: Constant


class _Parser:
    """One text; holds it for the errors."""

    def __init__(self, text: str):
        self._text = text
        flat = re.sub(r"[\r\n\t\f]", " ", text)
        self._source = flat.strip()
        self._lead = len(flat) - len(flat.lstrip())
        self._bytes = self._source.encode(errors="surrogatepass")

    def root(self) -> Node:
        if not self._source:
            raise WhereError(self._text, 0, "expected a condition, found nothing")
        if "#" in self._source:
            self._refuse_foreign()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self._source, mode="eval")
        except SyntaxError as error:
            self._refuse_foreign()
            position = (error.offset or 0) - 1
            rest = self._source[position:] if position >= 0 else ""
            if error.msg.startswith("invalid syntax"):
                token = re.match(r"\w+|\S", rest)
                found = token.group() if token else "the end of the text"
            else:
                found = error.msg
            position = len(self._source) if not rest else position
            raise WhereError(self._text, position + self._lead, f"expected a condition, found {found}") from None
        except (ValueError, MemoryError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "one nested too deeply"
            raise WhereError(self._text, 0, f"expected a condition, found {reason}") from None
        return self._node(tree.body, 0)

    def _refuse_foreign(self) -> None:
        """Raises for the first thing that is written differently in other languages, if there is one."""
        blank = re.sub(r"'[^']*'|\"[^\"]*\"", lambda match: " " * len(match.group()), self._source)
        found = [
            (match.start(), -len(match.group()), match.group(), write)
            for pattern, write in _FOREIGN
            for match in re.finditer(pattern, blank)
        ]
        if found:
            start, _, wrong, write = min(found)
            raise WhereError(self._text, start + self._lead, f"expected {write}, found {' '.join(wrong.split())}")

    def _wrong(self, node: ast.AST, expected: str, found: str | None = None) -> WhereError:
        found = self._segment(node) if found is None else found
        found = found if len(found) <= 40 else f"{found[:39]}…"
        return WhereError(self._text, self._position(node), f"expected {expected}, found {found}")

    def _position(self, node: ast.AST) -> int:
        offset: int = getattr(node, "col_offset", 0)
        return len(self._bytes[:offset].decode(errors="surrogatepass")) + self._lead

    def _segment(self, node: ast.AST) -> str:
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        return self._bytes[start:end].decode(errors="surrogatepass")

    def _node(self, node: ast.expr, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self._wrong(node, "a condition", "one nested too deeply")
        if isinstance(node, ast.BoolOp):
            operands = tuple(self._node(value, depth + 1) for value in node.values)
            return And(operands) if isinstance(node.op, ast.And) else Or(operands)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return Not(self._node(node.operand, depth + 1))
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.Name):
            name = self._segment(node)
            if name in _NAMES_OF_CONSTANTS:
                raise self._wrong(node, "a comparison, such as column > 0")
            raise self._wrong(node, f"a comparison, such as {name} == 1", f"just the name {name}")
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            self._refuse_bitwise(node)
        raise self._wrong(node, "a comparison, such as column > 0")

    def _comparison(self, node: ast.Compare) -> Node:
        operands = [node.left, *node.comparators]
        parts = [self._pair(*pair) for pair in zip(operands, node.ops, operands[1:])]
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _pair(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Node:
        if isinstance(operator, (ast.In, ast.NotIn)):
            member: Node = In(self._column(left, "before in"), self._constants(right))
            return Not(member) if isinstance(operator, ast.NotIn) else member
        if isinstance(operator, (ast.Is, ast.IsNot)):
            if not (isinstance(right, ast.Constant) and right.value is None):
                hint = "" if self._is_null(right) else " (numbers are compared with ==)"
                raise self._wrong(right, f"None after is{hint}")
            null: Node = IsNull(self._column(left, "before is"))
            return Not(null) if isinstance(operator, ast.IsNot) else null
        sign = _COMPARISONS[type(operator)]
        for side in (left, right):
            if self._is_null(side):
                raise self._wrong(side, f"a number after {sign} (nulls are found with is None)")
        one, other = self._operand(left), self._operand(right)
        if isinstance(one, _Column) and isinstance(other, _Value):
            return Compare(one.name, sign, other.value)
        if isinstance(one, _Value) and isinstance(other, _Column):
            return Compare(other.name, _SWAPPED[sign], one.value)
        if isinstance(one, _Column):
            hint = self._segment(right)
            known = _NAMES_OF_CONSTANTS.get(hint.lower())
            raise self._wrong(right, known or f"a constant to compare {self._segment(left)} with", f"the name {hint}")
        raise self._wrong(
            left,
            "a column on one side of the comparison",
            f"two constants, {self._segment(left)} and {self._segment(right)}",
        )

    def _is_null(self, node: ast.expr) -> bool:
        """Whether this is None, or what other languages call it."""
        if isinstance(node, ast.Name):
            return _NAMES_OF_CONSTANTS.get(self._segment(node).lower()) == "None"
        return isinstance(node, ast.Constant) and node.value is None

    def _column(self, node: ast.expr, place: str) -> str:
        if isinstance(node, ast.Name):
            return self._segment(node)
        self._refuse_bitwise(node)
        raise self._wrong(node, f"a column name {place}")

    def _constants(self, node: ast.expr) -> tuple[Constant, ...]:
        if not isinstance(node, (ast.Tuple, ast.List)):
            raise self._wrong(node, "a list of numbers after in, such as (3, 7), or (3,) for a single one")
        if not node.elts:
            raise self._wrong(node, "at least one number in the list", "none")
        values = []
        for element in node.elts:
            if self._is_null(element):
                raise self._wrong(element, "a number in the list (nulls are found with is None)")
            operand = self._operand(element)
            if isinstance(operand, _Column):
                raise self._wrong(element, "a number in the list")
            values.append(operand.value)
        return tuple(values)

    def _operand(self, node: ast.expr) -> _Column | _Value:
        if isinstance(node, ast.Name):
            return _Column(self._segment(node))
        signed = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd))
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        constant = node.operand if isinstance(node, ast.UnaryOp) and signed else node
        if isinstance(constant, ast.Constant):
            value = constant.value
            if isinstance(value, (str, bytes)):
                raise self._wrong(node, "a number (strings are hashed to integers when samples are converted)")
            if isinstance(value, (bool, int)):
                whole = -int(value) if negative else int(value)
                if not INT64_MIN <= whole <= INT64_MAX:
                    raise self._wrong(node, f"an integer from {INT64_MIN} to {INT64_MAX}")
                return _Value(whole)
            if isinstance(value, float):
                return _Value(-value if negative else value)
        self._refuse_bitwise(node)
        negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if negated or isinstance(node, (ast.Compare, ast.BoolOp)):
            raise self._wrong(node, "a column or a number", f"a condition, {self._segment(node)}")
        raise self._wrong(node, "a column or a number")

    def _refuse_bitwise(self, node: ast.expr) -> None:
        """`a == 1 & b == 2` is Python, but compares with `1 & b`."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            wrong, write = ("&", "and") if isinstance(node.op, ast.BitAnd) else ("|", "or")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            wrong, write = "~", "not"
        else:
            return
        if wrong == "~":
            raise self._wrong(node, write, wrong)
        assert isinstance(node, ast.BinOp)
        end = getattr(node.left, "end_col_offset", 0)
        position = len(self._bytes[: self._bytes.index(wrong.encode(), end)].decode(errors="surrogatepass"))
        raise WhereError(self._text, position + self._lead, f"expected {write}, found {wrong}")
