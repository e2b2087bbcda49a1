"""Files of ours in JSON: read as a mapping, and checked against the frozen dataclass that says what is in them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ps_cluster.errors import UserError
from ps_cluster.job.problems import Problem, found_text, path_text, quoted
from ps_cluster.job.words import described, problems_of

Kind = TypeVar("Kind")

NO_OTHER_FIELDS = ConfigDict(extra="forbid")
"""For `pydantic.with_config`: a dataclass whose file has its fields alone."""


def read_mapping(path: str, what: str) -> dict[str, Any]:
    """What a file holds.

    Args:
      path: of the file.
      what: it is, such as `the description of an export`.

    Raises:
      UserError: it cannot be read, or holds something else; names the file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file, object_pairs_hook=_each_once)
    except OSError as error:
        raise UserError(f"{path}: expected {what}, found: {error.strerror}") from None
    except _TwiceError as error:
        raise UserError(f"{path}: expected each field once, found {quoted(error.field)} twice in a mapping") from None
    except RecursionError:
        raise UserError(f"{path}: expected {what}, found values nested too deeply to be read") from None
    except ValueError as error:  # no JSON, or no text
        raise UserError(f"{path}: expected {what}, found no JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected {what}, found {found_text(content)}")
    return content


def taken(path: str, content: dict[str, Any], field: str, kind: type[Kind]) -> Kind:
    """Takes a field out of a file's mapping; UserError where it is not there or of another kind."""
    if field in content and type(content[field]) is kind:
        return content.pop(field)
    found = found_text(content[field]) if field in content else "no such field"
    raise wrong(path, Problem((field,), described(TypeAdapter(kind).json_schema(), {}), found))


def checked(path: str, content: dict[str, Any], kind: type[Kind]) -> Kind:
    """A file's mapping as a dataclass, one of `NO_OTHER_FIELDS`; UserError names the first field that is wrong."""
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":  # what Python's reader takes and pydantic's does not
            why = first["ctx"]["error"].partition(" at line ")[0]
            raise UserError(f"{path}: expected values that ps-cluster writes, found others: {why}") from None
        raise wrong(path, problems_of(error, content, adapter.json_schema())[0]) from None


class _TwiceError(ValueError):
    def __init__(self, field: str):
        super().__init__(field)
        self.field = field


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in pairs:
        if field in found:
            raise _TwiceError(field)
        found[field] = value
    return found


def wrong(path: str, problem: Problem) -> UserError:
    """A problem of a file in one line."""
    return UserError(f"{path}: {path_text(problem.path)}: expected {problem.expected}, found {problem.found}")
