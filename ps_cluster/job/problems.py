"""A problem of a job file: where it is, what was expected there and what was found."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union

Path = tuple[Union[str, int], ...]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_LONGEST = 60


@dataclass(frozen=True)
class Problem:
    """One wrong thing; `path` leads to it from the top of the file, e.g. `("features", 0, "dim")`."""

    path: Path
    expected: str
    found: str
    of_key: bool = False  # the field itself is wrong, not its value
    line: int | None = None  # where the path alone does not say it


def path_text(path: Path) -> str:
    """`("features", 0, "dim")` as `features[0].dim`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{quoted(part)}]"
    return text


def found_text(value: object) -> str:
    """A value as the person wrote it, cut to a readable length."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value) if value else "empty text"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        if not value:
            return "an empty list"
        return "a list of 1 value" if len(value) == 1 else f"a list of {len(value)} values"
    return _shortened(repr(value))


def quoted(text: str) -> str:
    """Text between quotes, on one line, cut to a readable length."""
    return repr(_shortened(text))


def listed(names: Iterable[str]) -> str:
    """Names between quotes with commas."""
    return ", ".join(quoted(name) for name in names)


def suggestion(wrong: object, right: Iterable[str]) -> str:
    """`; did you mean 'x'?` when one of `right` is close to `wrong`, else nothing."""
    meant = near(wrong, right) if isinstance(wrong, str) else None
    return f"; did you mean {quoted(meant)}?" if meant is not None else ""


def near(wrong: str, right: Iterable[str]) -> str | None:
    """The one of `right` that a person who wrote `wrong` most likely meant."""
    return next(iter(difflib.get_close_matches(wrong, list(right), n=1)), None)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
