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
    root, before = yaml.compose(text, Loader=yaml.SafeLoader), parse(text).value
    wanted = before
    replaced: list[tuple[int, int, str]] = []
    added: dict[Path, object] = {}
    for path, value in values.items():
        wanted = _set(wanted, path, value)
        node = _at_node(root, path)
        if node is None:
            added[path] = value
        else:
            replaced.append((node.start_mark.index, _end(node), _written(value)))
    edited = text
    for start, end, written in sorted(replaced, reverse=True):
        edited = f"{edited[:start]}{written}{edited[end:]}"
    for path, value in added.items():
        edited = _with_added(edited, path, value)
    # Anchors and block texts are not worth more than a file that is written anew.
    return edited if _value_of(edited) == wanted else json.dumps(wanted, ensure_ascii=False, indent=2) + "\n"


def _with_added(text: str, path: Path, value: object) -> str:
    """`text` with a field that is absent; the nearest mapping around it is there."""
    root, depth = yaml.compose(text, Loader=yaml.SafeLoader), 0
    node = root
    while (inner := _inner(node, path[depth])) is not None:
        node, depth = inner, depth + 1
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    if depth > 0:
        held = {**_at(parse(text).value, path[:depth]), path[depth]: value}
        return f"{text[: node.start_mark.index]}{_written(held)}{text[_end(node) :]}"
    line = f"{path[0]}: {_written(value)}"
    if not root.flow_style:
        return f"{text.rstrip()}\n{line}\n"
    at = root.end_mark.index - 1
    return f"{text[:at].rstrip().removesuffix(',')}, {line}{text[at:]}"


def _at_node(node: Node | None, path: Path) -> Node | None:
    for name in path:
        node = _inner(node, name) if node is not None else None
    return node


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
