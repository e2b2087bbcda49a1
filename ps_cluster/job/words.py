"""What pydantic finds wrong with a job (or another file of ours), in the words of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ps_cluster.job.problems import Path, Problem, found_text, listed, quoted, suggestion
from ps_cluster.job.schema import Job

Schema = Mapping[str, Any]

_NUMBER = re.compile(r"[-+]?[0-9.]+")

ROOT: Schema = Job.model_json_schema()


def problems_of(error: ValidationError, value: object, root: Schema = ROOT) -> list[Problem]:
    """One problem for each of pydantic's errors about `value`, the whole file as plain values; `root`: its schema."""
    return [_problem(details, value, root) for details in error.errors(include_url=False, include_context=False)]


def described(schema: Schema, root: Schema = ROOT) -> str:
    """The values a schema accepts, e.g. `an integer above 0`."""
    schema = _plain(schema, root)
    if "expected" in schema:
        return str(schema["expected"])
    if "const" in schema:
        return found_text(schema["const"])
    if "enum" in schema:
        return f"one of {listed(schema['enum'])}"
    if "oneOf" in schema:
        tag = schema["discriminator"]["propertyName"]
        return f"a mapping with {quoted(tag)}: one of {listed(schema['discriminator']['mapping'])}"
    if "anyOf" in schema:
        return " or ".join(described(member, root) for member in schema["anyOf"] if member.get("type") != "null")
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return f"{'an integer' if kind == 'integer' else 'a number'}{_bounds(schema)}"
    if kind == "boolean":
        return "true or false"
    if kind == "string":
        return "text"
    if kind == "array":
        return "a list with at least one value" if schema.get("minItems") else "a list"
    if kind == "object" and "properties" in schema:
        return f"a mapping with the fields {listed(schema['properties'])}"
    if kind == "object":
        return "a mapping by name"
    return "another value"


def _bounds(schema: Schema) -> str:
    words = []
    if "minimum" in schema:
        words.append(f"of at least {schema['minimum']}")
    if "exclusiveMinimum" in schema:
        words.append(f"above {schema['exclusiveMinimum']}")
    if "maximum" in schema:
        words.append(f"of at most {schema['maximum']}")
    if "exclusiveMaximum" in schema:
        words.append(f"below {schema['exclusiveMaximum']}")
    return f" {' and '.join(words)}" if words else ""


def _problem(details: Mapping[str, Any], whole: object, root: Schema) -> Problem:
    path, schema, value = _walk(details["loc"], whole, root)
    kind = details["type"]
    if kind == "missing":
        return Problem(path, described(schema, root), "no such field")
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):  # of a model, of a dataclass
        _, section, _ = _walk(details["loc"][:-1], whole, root)
        fields = list(_plain(section, root)["properties"])
        name = path[-1]
        return Problem(
            path,
            f"one of the fields {listed(fields)}",
            f"{quoted(str(name))}{suggestion(name, fields)}",
            True,
        )
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        choice = _plain(schema, root)["discriminator"]
        tag, names = choice["propertyName"], list(choice["mapping"])
        mapping = value if isinstance(value, dict) else {}
        found = found_text(mapping[tag]) if tag in mapping else "no such field"
        return Problem((*path, tag), f"one of {listed(names)}", f"{found}{suggestion(mapping.get(tag), names)}")
    if details["loc"][-1:] == ("[key]",):
        return Problem(path, described(schema["propertyNames"], root), quoted(str(path[-1])), True)
    plain = _plain(schema, root)
    found = found_text(value)
    if "enum" in plain:
        found += suggestion(value, plain["enum"])
    elif plain.get("type") in ("integer", "number") and isinstance(value, str) and _NUMBER.fullmatch(value):
        found = f"the text {found}"
    return Problem(path, described(schema, root), found)


def _walk(loc: Sequence[str | int], value: object, root: Schema) -> tuple[Path, Schema, object]:
    """Path, schema and value at pydantic's `loc`, which besides fields and indices names variants of unions.

    For a wrong key of a mapping (`[key]`) the schema is the mapping's.
    """
    schema = root
    path: Path = ()
    for part, following in zip(loc, [*loc[1:], None]):
        plain = _plain(schema, root)
        if "discriminator" in plain and part in plain["discriminator"]["mapping"]:
            schema = {"$ref": plain["discriminator"]["mapping"][part]}
            continue
        if part == "[key]":
            continue
        if "anyOf" in plain:  # the part names one of its variants
            break
        path = (*path, part)
        value = _member(value, part)
        if following != "[key]":
            schema = _member_schema(plain, part)
    return path, schema, value


def _member(value: object, part: str | int) -> object:
    if isinstance(value, dict):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _member_schema(schema: Schema, part: str | int) -> Schema:
    if isinstance(part, int):
        return schema.get("items", {})
    if part in schema.get("properties", {}):
        return schema["properties"][part]
    for member in _of_any_name(schema):
        return member
    return {}


def _of_any_name(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("patternProperties", {}).values()
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield schema["additionalProperties"]


def _plain(schema: Schema, root: Schema) -> Schema:
    """The schema behind references, without the null of an optional field; `anyOf` is left where there are several."""
    while True:
        if "$ref" in schema:
            target = root["$defs"][schema["$ref"].rpartition("/")[2]]
            schema = {**target, **{key: schema[key] for key in schema if key != "$ref"}}
            continue
        variants = [member for member in schema.get("anyOf", []) if member.get("type") != "null"]
        if len(variants) != 1 or "expected" in schema:
            return schema
        schema = variants[0]
