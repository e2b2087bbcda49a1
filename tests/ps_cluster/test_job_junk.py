"""Junk in job files: always exit code 2 and the line of the field, never a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_cluster.cli.main import main
from tests.ps_cluster.job_texts import ALL, LOCAL, write

# No field of a job file takes any of these.
NEVER_RIGHT = ["true", ".nan", "[[1]]", '{"?": 1}', "!!binary aGk=", '"a\\0b"', "!wrong tag", "{[a]: b}"]

FIELD = re.compile(r"(?P<indent>[ ]*(?:- )?)(?P<name>[a-z_0-9]+):(?P<value>| .*)")
ITEM = re.compile(r"(?P<indent> *- )(?P<value>.*)")


def with_junk(text: str, index: int, junk: str) -> tuple[str, str]:
    """The text with `junk` as the value of the field or list item on line `index`, and that field's name."""
    lines = text.splitlines()
    match = FIELD.fullmatch(lines[index])
    if match is None:
        item = ITEM.fullmatch(lines[index])
        assert item is not None, lines[index]
        lines[index] = f"{item['indent']}{junk}"
        return "\n".join(lines), ""
    end = index + 1
    if not match["value"]:  # a section: its fields go
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > len(match["indent"]):
            end += 1
    lines[index:end] = [f"{match['indent']}{match['name']}: {junk}"]
    return "\n".join(lines), match["name"]


def checked(text: str) -> tuple[int, list[str]]:
    """Exit code of `ps-cluster check` and its messages, each without the file's name."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
        path = write(Path(folder), text)
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(["check", str(path)])
        return code, [line.removeprefix(f"{path}:") for line in said.getvalue().splitlines()]


def every_field() -> Iterator[tuple[str, int]]:
    for text in ALL.values():
        for index in range(len(text.splitlines())):
            yield text, index


def assert_told(text: str, index: int, junk: str) -> None:
    wrong, name = with_junk(text, index, junk)
    code, messages = checked(wrong)
    assert code == 2
    told = [message for message in messages if message.startswith(f"{index + 1}: ")]
    assert told and any(name in message for message in told), (wrong, messages)


@pytest.mark.parametrize("junk", NEVER_RIGHT)
def test_junk_in_any_field_is_told_with_the_line_of_the_field(junk: str) -> None:
    for text, index in every_field():
        assert_told(text, index, junk)


NUMBERS = [
    (text, index) for text, index in every_field() if re.fullmatch(r" *\w+: [-.e0-9]+", text.splitlines()[index])
]
CHOICES = [
    (text, index)
    for text, index in every_field()
    if re.search(r"\b(kind|pooling|gelu|decay|sparse_updates): ", text.splitlines()[index])
]


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NUMBERS + CHOICES), TEXTS.filter(lambda text: text not in ("none", "mean", "id", "tanh")))
def test_any_text_for_a_number_or_a_choice_is_told(place: tuple[str, int], junk: str) -> None:
    # JSON's quotes and escapes are YAML's too: a text remains one, whatever is in it.
    assert_told(*place, json.dumps(junk))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_done_to_the_text_there_is_never_a_traceback(data: st.DataObject) -> None:
    text = LOCAL
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        junk = data.draw(st.sampled_from(["", ":", "- ", "&a ", "*a", "\t", "{", "]", "'", '"', "\n", "#", "!"]))
        text = text[:start] + junk + text[end:]
    code, messages = checked(text)
    assert code == (2 if messages else 0)
    for message in messages:
        assert re.match(r"\d+: .*expected .*found ", message), message


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_job_are_told(raw: bytes) -> None:
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
        path = Path(folder, "job.yaml")
        path.write_bytes(raw)
        assert main(["check", str(path)]) == 2
    assert said.getvalue().startswith(f"{path}:")
