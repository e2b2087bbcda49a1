"""What is told of damaged `export.json` and `delta.json`: file, field, expected, found."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ps_cluster.cli.main import main
from ps_cluster.errors import UserError
from ps_cluster.export.delta_format import Delta, TableChange, read_delta, write_delta
from ps_cluster.export.description import (
    DESCRIPTION,
    Description,
    ServedFeature,
    Source,
    TableSize,
    read_description,
    write_description,
)

SOURCE = Source("small", 3, 7)
USER = ServedFeature("user", "int64", "user_id", 5, None)
DESCRIBED = Description("ranker", "plain", "float32", SOURCE, "click", (USER,), {"user": TableSize(4, 8)})
DELTA = Delta(1, 2, SOURCE, Source("small", 5, 8), "plain", "int8", {"user": TableChange(3, 1)}, {})

Damage = Callable[[dict[str, Any]], object]


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    write_description(str(tmp_path / "model"), DESCRIBED)
    assert read_description(str(tmp_path / "model")) == DESCRIBED
    (tmp_path / "delta").mkdir()
    write_delta(str(tmp_path / "delta"), DELTA)
    assert read_delta(str(tmp_path / "delta")) == DELTA


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda c: c.pop("label"), "label: expected text, found no such field"),
        (lambda c: c.pop("format_version"), "format_version: expected an integer, found no such field"),
        (lambda c: c.update(format_version="1"), "format_version: expected an integer, found '1'"),
        (lambda c: c.update(format_version=9), "expected format version 1, found 9"),
        (lambda c: c["source"].pop("step"), "source.step: expected an integer, found no such field"),
        (lambda c: c.update(source=None), "source: expected a mapping with the fields 'job', 'step', 'crc32', found"),
        (lambda c: c["source"].update(stpe=4), "source.stpe: expected one of the fields 'job', 'step', 'crc32', found"),
        (lambda c: c["tables"]["user"].pop("width"), "tables.user.width: expected an integer, found no such field"),
        (lambda c: c.update(form="plian"), "form: expected one of 'plain', 'ops', 'tfra', found 'plian'; did you mean"),
        (
            lambda c: c["features"][0].update(missing=[3]),
            "features[0].missing: expected an integer or a number or text, found a list of 1 value",
        ),
    ],
)
def test_a_wrong_field_of_an_export_is_named(tmp_path: Path, damage: Damage, told: str) -> None:
    write_description(str(tmp_path), DESCRIBED)
    path = tmp_path / DESCRIPTION
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=re.escape(f"{path}: ") + ".*" + re.escape(told)) as raised:
        read_description(str(tmp_path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected the description of an export, found no JSON: Expecting value"),
        ("[]", "expected the description of an export, found an empty list"),
        ("[" * 100_000, "expected the description of an export, found values nested too deeply to be read"),
        ('{"a": ' * 100_000, "expected the description of an export, found values nested too deeply to be read"),
        ('{"rows": {"a": 1, "b": 2, "a": 1}}', "expected each field once, found 'a' twice in a mapping"),
        ("\udcff", "expected the description of an export, found no JSON: 'utf-8' codec can't decode"),
    ],
)
def test_what_is_no_description_is_told(tmp_path: Path, text: str, told: str) -> None:
    write_description(str(tmp_path), DESCRIBED)
    path = tmp_path / DESCRIPTION
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(UserError, match=re.escape(f"{path}: {told}")):
        read_description(str(tmp_path))


@pytest.mark.parametrize("field", ["label", "features", "tables"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("[" * 150 + "]" * 150, r"expected (text|a mapping.*), found a list of 1 value"),
        ("[" * 250 + "]" * 250, "expected values that ps-cluster writes, found others: recursion limit exceeded"),
        ("[" * 900 + "]" * 900, "expected values that ps-cluster writes, found others: recursion limit exceeded"),
        (r'"\ud800"', "expected values that ps-cluster writes, found others: unexpected end of hex escape"),
    ],
)
def test_values_that_only_one_reader_of_json_takes_are_told(tmp_path: Path, field: str, value: str, told: str) -> None:
    write_description(str(tmp_path), DESCRIBED)
    path = tmp_path / DESCRIPTION
    path.write_text(json.dumps({**json.loads(path.read_text()), field: "@"}).replace('"@"', value))
    with pytest.raises(UserError, match=re.escape(f"{path}: ") + f".*{told}"):
        read_description(str(tmp_path))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda c: c.pop("crc32"), "crc32: expected an integer, found no such field"),
        (lambda c: c.update(crc32=1), "damaged: expected a description with its CRC-32 00000001, found "),
        (lambda c: c.update(base=7), "damaged: expected a description with its CRC-32 "),
    ],
)
def test_a_damaged_delta_is_told_by_its_checksum(tmp_path: Path, damage: Damage, told: str) -> None:
    write_delta(str(tmp_path), DELTA)
    path = tmp_path / "delta.json"
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=re.escape(f"{path}: {told}")):
        read_delta(str(tmp_path))


def test_a_delta_that_lacks_a_field_ends_the_command_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delta = tmp_path / "delta-1-to-2"
    delta.mkdir()
    write_delta(str(delta), DELTA)
    content = json.loads((delta / "delta.json").read_text())
    del content["crc32"], content["tables"]["user"]["removed"]
    crc = zlib.crc32(json.dumps(content).encode())
    (delta / "delta.json").write_text(json.dumps({**content, "crc32": crc}))
    os.makedirs(tmp_path / "1")
    assert main(["apply", str(delta), "--to", str(tmp_path)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"{delta}/delta.json: tables.user.removed: expected an integer of at least 0 and ")
    assert told[0].endswith(", found no such field")
