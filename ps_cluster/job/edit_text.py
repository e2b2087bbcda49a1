"""Single values of a job file's text set anew; the rest stays as a person wrote it, comments included."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ps_cluster.job.problems import Path
from ps_cluster.job.yaml_text import parse

_PLAIN = re.compile(r"[/A-Za-z][A-Za-z0-9_./*=-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def with_values(text: str, values: Mapping[Path, object]) -> str:
    """A right job file's text with each value at its path; a field that is absent is added.

    Paths name fields by text and items of lists by number; an item must be there.
    """
    for path, value in values.items():
        wanted = _set(parse(text).value, path, value)
        edited = _edited(text, path, value)
        # Anchors and block texts are not worth more than a file that is written anew.
        text = edited if _value_of(edited) == wanted else json.dumps(wanted, ensure_ascii=False, indent=2) + "\n"
    return text


def _edited(text: str, path: Path, value: object) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    node, depth = root, 0
    while depth < len(path) and (inner := _inner(node, path[depth])) is not None:
        node, depth = inner, depth + 1
    if depth < len(path):
        for name in reversed(path[depth + 1 :]):
            value = {name: value}
        if depth == 0:
            line = f"{path[0]}: {_written(value)}"
            if root.flow_style:
                at = root.end_mark.index - 1
                return f"{text[:at].rstrip().removesuffix(',')}, {line}{text[at:]}"
            return f"{text.rstrip()}\n{line}\n"
        value = {**_at(parse(text).value, path[:depth]), path[depth]: value}
    start, end = node.start_mark.index, _end(node)
    return f"{text[:start]}{_written(value)}{text[end:]}"


def _inner(node: Node, name: str | int) -> Node | None:
    if isinstance(node, MappingNode):
        return next((value for key, value in node.value if key.value == name), None)
    if isinstance(node, SequenceNode) and isinstance(name, int):
        return node.value[name]
    return None


def _end(node: Node) -> int:
    """Where the text of a node ends; a block's own mark is at the next token, behind comments."""
    if isinstance(node, ScalarNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _written(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)  # is YAML, too


def _value_of(text: str) -> object:
    document = parse(text)
    return None if document.problems else document.value


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = value[name]
    return value


def _set(value: Any, path: Path, new: object) -> Any:
    """`value` with `new` at `path`; nothing is changed in place."""
    if not path:
        return new
    name, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_set(item, rest, new) if at == name else item for at, item in enumerate(value)]
    inner = value.get(name, {} if rest else None) if isinstance(value, dict) else {}
    return {**(value or {}), name: _set(inner, rest, new)}
