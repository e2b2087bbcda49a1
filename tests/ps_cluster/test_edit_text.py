"""Values set in a job file's text: what was asked for changes, comments and all else stay."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ps_cluster.job.edit_text import with_values
from ps_cluster.job.yaml_text import parse

TEXT = """\
# head
a: 1 # one
b:   # two
  - "x"
  - y.orc   # why
c: {d: 5, e: [1, 2]}
f:
  g: old # kept?
# tail
"""


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("a",), 2, "a: 2 # one"),
        (("b", 0), "/storage/x", "  - /storage/x"),
        (("b", 1), "no", '  - "no"   # why'),
        (("c", "d"), 6, "c: {d: 6, e: [1, 2]}"),
        (("c", "e", 1), {"x": None}, 'c: {d: 5, e: [1, {"x": null}]}'),
        (("c", "new"), 1, 'c: {"d": 5, "e": [1, 2], "new": 1}'),
        (("f", "g"), "é", '  g: "é" # kept?'),
        (("h", "i"), 7, 'h: {"i": 7}'),
    ],
)
def test_one_value_changes_and_nothing_else(path: tuple, value: object, line: str) -> None:
    before, after = TEXT.splitlines(), with_values(TEXT, {path: value}).splitlines()
    assert line in after
    assert [one for one in after if one not in before] == [line]


def test_several_values_are_set_together() -> None:
    found = with_values(TEXT, {("a",): 2, ("b", 1): "z", ("h",): 3, ("f", "g"): "n"})
    wanted = {"a": 2, "b": ["x", "z"], "c": {"d": 5, "e": [1, 2]}, "f": {"g": "n"}, "h": 3}
    assert parse(found).value == wanted


def test_what_an_alias_repeats_is_not_changed_with_it() -> None:
    text = "a: &one [1, 2]\nb: *one\n"
    assert parse(with_values(text, {("a", 0): 9})).value == {"a": [9, 2], "b": [1, 2]}
    assert parse(with_values(text, {("a",): 9})).value == {"a": 9, "b": [1, 2]}


_LEAVES = st.integers(-5, 5) | st.text("abc:# -\n'\"é", max_size=6) | st.booleans() | st.none()
_NAMES = st.text("abn", min_size=1, max_size=2)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=3), _VALUES, st.booleans(), st.data())
def test_any_value_can_be_set_in_any_text(values: dict[str, Any], new: object, flow: bool, data: st.DataObject) -> None:
    text = yaml.safe_dump(values, allow_unicode=True, default_flow_style=flow)
    values = parse(text).value  # as our reader takes it
    path: tuple = (data.draw(st.sampled_from(sorted(values))),)
    inner = values[path[0]]
    while isinstance(inner, (dict, list)) and inner and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))))
        path, inner = (*path, name), inner[name]
    wanted = parse(text).value
    above: Any = wanted
    for name in path[:-1]:
        above = above[name]
    above[path[-1]] = new
    assert parse(with_values(text, {path: new})).value == wanted
