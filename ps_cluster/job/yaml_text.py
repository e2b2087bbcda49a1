"""YAML text as plain values that remember their lines.

Read by the rules of YAML 1.2: `1e-3` is a number, `10:30` and `no` are texts. PyYAML's own resolver follows
YAML 1.1, where `1e-3` is a text, `10:30` is 630 and `no` is false.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

from yaml.composer import Composer
from yaml.error import MarkedYAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from ps_cluster.job.problems import Path, Problem, found_text

# An alias repeats what its anchor holds; a few lines of aliases of aliases would otherwise fill the memory.
MOST_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_INT64 = range(-(2**63), 2**63)


class _Resolver(BaseResolver):
    """The core schema of YAML 1.2."""


for _name, _pattern in (
    ("null", r"~|null|Null|NULL|"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
):
    _Resolver.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), [None])


class _Loader(Reader, Scanner, Parser, Composer, _Resolver):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Resolver.__init__(self)


@dataclass
class Document:
    """A YAML document: dicts, lists, texts, numbers, booleans and None, and the line of each of them."""

    value: object = None
    empty: bool = False
    problems: list[Problem] = field(default_factory=list)
    value_lines: dict[Path, int] = field(default_factory=dict)
    key_lines: dict[Path, int] = field(default_factory=dict)

    def line(self, problem: Problem) -> int:
        """Line of the problem's value or field, from 1; of the nearest mapping around it if it is absent."""
        if problem.line is not None:
            return problem.line
        if problem.of_key and problem.path in self.key_lines:
            return self.key_lines[problem.path]
        for length in range(len(problem.path), -1, -1):
            line = self.value_lines.get(problem.path[:length])
            if line is not None:
                return line
        return 1


def parse(text: str) -> Document:
    """Reads one YAML document. What is wrong with it as YAML is in `problems`, never raised."""
    try:
        loader = _Loader(text)
    except ReaderError as error:
        return _broken(text.count("\n", 0, error.position) + 1, f"the character {chr(error.character)!r}")
    try:
        root = loader.get_single_node()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = error.problem or error.context or str(error)
        if error.context and error.problem:
            words = f"{error.problem} {error.context}"
        return _broken(mark.line + 1 if mark else 1, " ".join(words.split()))
    except RecursionError:
        return _broken(loader.line + 1, "values nested too deeply")
    except (ValueError, OverflowError):  # chr() of an escape such as "\UFFFFFFFF"
        return _broken(loader.line + 1, "an escape that is no character")
    document = Document(empty=root is None)
    if root is not None:
        _Conversion(document).convert(root, ())
    return document


def _broken(line: int, found: str) -> Document:
    return Document(problems=[Problem((), "valid YAML", found, line=line)])


class _Conversion:
    """One walk over a node graph."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values = 0
        self._open: set[int] = set()

    def convert(self, root: Node, path: Path) -> None:
        self._document.value = self._value(root, path, None)

    def _value(self, node: Node, path: Path, key_line: int | None) -> object:
        line = node.start_mark.line + 1
        block = not isinstance(node, ScalarNode) and not node.flow_style
        if key_line is not None and (block or line < key_line):
            # A block begins below its field's name, an alias's value where its anchor is: the line sought is
            # the field's.
            line = key_line
        self._document.value_lines[path] = line
        self._values += 1
        if self._values > MOST_VALUES:
            if self._values == MOST_VALUES + 1:
                self._wrong((), f"at most {MOST_VALUES} values", "more", line)
            return None
        if id(node) in self._open:
            self._wrong(path, "a value that does not contain itself", "an alias of what it is in", line)
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode) and node.tag == _TAG + "map":
                return self._mapping(node, path)
            if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
                return [self._value(item, (*path, index), None) for index, item in enumerate(node.value)]
            if isinstance(node, ScalarNode) and node.tag in _SCALARS:
                return self._scalar(node, path, line)
            self._wrong(path, "a plain value", f"the tag {node.tag.replace(_TAG, '!!')}", line)
            return None
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._wrong(path, "a field's name", "a list or mapping as a name", line)
                continue
            key = key_node.value
            if key in mapping:
                again = f"it again (first on line {first[key]})"
                self._document.problems.append(Problem((*path, key), "the field once", again, True, line))
                continue
            first[key] = line
            self._document.key_lines[(*path, key)] = line
            mapping[key] = self._value(value_node, (*path, key), line)
        return mapping

    def _scalar(self, node: ScalarNode, path: Path, line: int) -> object:
        try:
            value = _SCALARS[node.tag](node.value)
        except (ValueError, KeyError):
            kind = node.tag.replace(_TAG, "!!")
            self._wrong(path, f"a value of type {kind}", found_text(node.value), line)
            return node.value
        if isinstance(value, str) and any(unicodedata.category(char) in ("Cc", "Cs") for char in value):
            self._wrong(path, "text on one line, without control characters", found_text(value), line)
        elif isinstance(value, float) and not math.isfinite(value):
            self._wrong(path, "a finite number", node.value, line)
        elif type(value) is int and value not in _INT64:
            self._wrong(path, "an integer of 64 bits", found_text(node.value), line)
        return value

    def _wrong(self, path: Path, expected: str, found: str, line: int) -> None:
        self._document.problems.append(Problem(path, expected, found, line=line))


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if len(digits) > 100:  # far outside 64 bits; int() refuses very long texts
        return sign * 2**64
    for prefix, base in (("0x", 16), ("0o", 8)):
        if digits.startswith(prefix):
            return sign * int(digits.removeprefix(prefix), base)
    return sign * int(digits)


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: dict[str, Callable[[str], object]] = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": lambda text: {"true": True, "false": False}[text.lower()],
    _TAG + "int": _integer,
    _TAG + "float": _float,
    _TAG + "str": str,
}
