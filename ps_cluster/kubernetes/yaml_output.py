"""Objects as the text that kubectl reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

# What some reader of YAML takes for a number, a truth value or nothing.
_AMBIGUOUS = re.compile(r"[-+]?[.0-9].*|~.*|(y|n|yes|no|on|off|true|false|null|)", re.IGNORECASE | re.DOTALL)


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else '"' if _AMBIGUOUS.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(objects: Iterable[Any]) -> str:
    """One document for each object."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6, explicit_start=True)
