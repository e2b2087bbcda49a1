"""Files of ours in JSON: read as a mapping, and checked against the frozen dataclass that says what is in them."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ps_cluster.errors import UserError
from ps_cluster.job.problems import Problem, found_text, path_text
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
            content = json.load(file)
    except OSError as error:
        raise UserError(f"{path}: expected {what}, found: {error.strerror}") from None
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
        raise wrong(path, problems_of(error, content, adapter.json_schema())[0]) from None


def wrong(path: str, problem: Problem) -> UserError:
    """A problem of a file in one line."""
    return UserError(f"{path}: {path_text(problem.path)}: expected {problem.expected}, found {problem.found}")
