"""The JSON schema of job files: complete, documented, true to what is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from ps_cluster.cli.schema import job_schema
from tests.ps_cluster.job_texts import ALL

SCHEMA = job_schema()
SECTIONS = {"Job": SCHEMA, **SCHEMA["$defs"]}
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}


def nodes(schema: object) -> Iterator[dict[str, Any]]:
    """All schemas inside a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in ("properties", "$defs", "patternProperties"):
        for inner in schema.get(name, {}).values():
            yield from nodes(inner)
    for name in ("items", "propertyNames", "additionalProperties"):
        yield from nodes(schema.get(name))
    for name in ("anyOf", "oneOf"):
        for inner in schema.get(name, []):
            yield from nodes(inner)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_is_described(name: str) -> None:
    assert len(SECTIONS[name].get("description", "")) > 10


@pytest.mark.parametrize(
    ("section", "field"), [(name, field) for name in SECTIONS for field in SECTIONS[name]["properties"]]
)
def test_every_field_is_described(section: str, field: str) -> None:
    schema = SECTIONS[section]["properties"][field]
    if "const" in schema:  # the word that picks the section: described there
        return
    # Beside a reference a description that equals the section's own is left out.
    described = schema if "$ref" not in schema else {**SECTIONS[schema["$ref"].split("/")[-1]], **schema}
    assert len(described.get("description", "")) > 10


def test_the_schema_is_whole() -> None:
    """References resolve, types exist, no section takes unknown fields, bounds are numbers."""
    for node in nodes(SCHEMA):
        if "$ref" in node:
            prefix, _, name = node["$ref"].rpartition("/")
            assert prefix == "#/$defs" and name in SCHEMA["$defs"]
        assert node.get("type", "object") in TYPES
        if "properties" in node:
            assert node["additionalProperties"] is False
            assert set(node.get("required", [])) <= set(node["properties"])
        for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxLength"):
            assert isinstance(node.get(bound, 0), (int, float))


def test_the_schema_is_one_by_the_standard() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_the_schema_takes_right_jobs(text: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    # PyYAML reads 1e-3 as a text: the jobs are written so that it does not matter here.
    job = yaml.safe_load(text.replace("1e-", "1.0e-"))
    jsonschema.Draft202012Validator(SCHEMA).validate(job)
    job["features"][0]["kind"] = "word"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(job)
