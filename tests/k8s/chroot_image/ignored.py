"""Which files of a folder are a build's context: the rules of a .dockerignore file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rule:
    """A line of the file. lets_in: it began with `!`."""

    pattern: str
    lets_in: bool

    def speaks_of(self, path: str) -> bool:
        """Whether it matches the path or a folder that it lies in."""
        return re.fullmatch(f"{_expression(self.pattern)}(?:/.*)?", path, re.DOTALL) is not None

    def may_speak_within(self, folder: str) -> bool:
        plain = re.split(r"[*?\[]", self.pattern)[0]
        return f"{folder}/".startswith(plain) or plain.startswith(f"{folder}/")


def read_rules(text: str) -> list[Rule]:
    rules = []
    for line in (line.strip() for line in text.splitlines()):
        pattern = os.path.normpath(line.lstrip("!").strip()).lstrip("/")
        if line and not line.startswith("#") and pattern != ".":
            rules.append(Rule(pattern, line.startswith("!")))
    return rules


def is_ignored(path: str, rules: list[Rule]) -> bool:
    """path: relative, parts joined by `/`. The last rule that speaks of it decides."""
    return next((not rule.lets_in for rule in reversed(rules) if rule.speaks_of(path)), False)


def context(root: Path, rules: list[Rule]) -> Iterator[str]:
    """Relative paths of all files, links and folders that are not ignored, folders before what lies in them."""
    for folder, folders, files in os.walk(root):
        inner = os.path.relpath(folder, root)
        paths = {name: name if inner == "." else f"{inner}/{name}" for name in (*folders, *files)}
        for name in sorted(paths):
            if not is_ignored(paths[name], rules):
                yield paths[name]
        folders[:] = sorted(
            name
            for name in folders
            if not is_ignored(paths[name], rules)
            or any(rule.lets_in and rule.may_speak_within(paths[name]) for rule in rules)
        )


def _expression(pattern: str) -> str:
    made, at = "", 0
    while at < len(pattern):
        for sign, meaning in (("**/", "(?:.*/)?"), ("**", ".*"), ("*", "[^/]*"), ("?", "[^/]")):
            if pattern.startswith(sign, at):
                made, at = made + meaning, at + len(sign)
                break
        else:
            of_several = re.compile(r"\[\^?[^\]]+\]").match(pattern, at)
            if of_several:
                made, at = made + of_several[0], of_several.end()
            else:
                at += pattern[at] == "\\" and at + 1 < len(pattern)
                made, at = made + re.escape(pattern[at]), at + 1
    return made
