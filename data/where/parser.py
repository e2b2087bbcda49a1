"""From a text to a condition, with an error that points at what is wrong.

Python parses; what of Python is no condition, and what other languages write instead, is refused here.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from data.where.tree import INT64_MAX, INT64_MIN, And, Compare, Constant, In, IsNull, Node, Not, Or, Where

_MAX_DEPTH = 100
_SHOWN_TEXT = 100

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


def _each_leaf(node: Node, visit: Callable[[Compare | In | IsNull], object]) -> None:
    if isinstance(node, (And, Or)):
        for operand in node.operands:
            _each_leaf(operand, visit)
    elif isinstance(node, Not):
        _each_leaf(node.operand, visit)
    else:
        visit(node)


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
