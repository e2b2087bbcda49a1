"""Job files as YAML and as files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ps_cluster.errors import UserError
from ps_cluster.job.load import load_job
from ps_cluster.job.yaml_text import MOST_VALUES, parse
from tests.ps_cluster.job_texts import LOCAL, write


def error(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_job(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        (".5", 0.5),
        ("-7", -7),
        ("+7", 7),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("10:30", "10:30"),
        ("2020-01-01", "2020-01-01"),
        ("yes", "yes"),
        ("off", "off"),
        ("True", True),
        ("~", None),
        ("null", None),
        ("'7'", "7"),
        ("!!str 7", "7"),
        ("!!int '7'", 7),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    document = parse(f"a: {text}")
    assert document.value == {"a": value}
    assert type(document.value["a"]) is type(value)
    assert not document.problems


def test_every_value_knows_its_line() -> None:
    text = "a: 1\nb:\n  - x\n  -\n    c: {d: 2,\n      e: 3}\nf:\n  text\n"
    document = parse(text)
    assert document.value_lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,  # a block: the line of its field
        ("b", 0): 3,
        ("b", 1): 5,
        ("b", 1, "c"): 5,
        ("b", 1, "c", "d"): 5,
        ("b", 1, "c", "e"): 6,
        ("f",): 8,
    }


def test_an_alias_stands_for_its_anchor(tmp_path: Path) -> None:
    text = LOCAL.replace("dim: 32", "dim: &width 32").replace("batch_size: 512", "batch_size: *width")
    assert load_job(write(tmp_path, text)).job.training.batch_size == 32


def test_a_wrong_alias_is_told_where_it_is_used(tmp_path: Path) -> None:
    text = LOCAL.replace("name: movie-clicks", "name: &name movie-clicks")
    text = text.replace("batch_size: 512", "batch_size: *name")
    assert error(write(tmp_path, text)).endswith(
        "job.yaml:75: training.batch_size: expected an integer above 0, found 'movie-clicks'"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: expected a mapping with the fields 'name', 'data', "),
        ("# nothing yet\n", "1: expected a mapping with the fields 'name', 'data', "),
        ("- a\n", "1: expected a mapping with the fields 'name', 'data', "),
        (
            "a: &x [*x]\n",
            "1: a[0]: expected a value that does not contain itself, found an alias of what it is in",
        ),
        ("a: 1\nb: *x\n", "2: expected valid YAML, found found undefined alias 'x'"),
        ("a: 1\n\tb: 2\n", "2: expected valid YAML, found "),
        ("a: 1\n---\nb: 2\n", "2: expected valid YAML, found but found another document"),
        (
            "a: !!python/name:os.system x\n",
            "1: a: expected a plain value, found the tag !!python/name:os.system",
        ),
        ("a: !!int x\n", "1: a: expected a value of type !!int, found 'x'"),
        ("? [a]\n: 1\n", "1: expected a field's name, found a list or mapping as a name"),
        ("a: 1\nb: \x01\n", "2: expected valid YAML, found the character '\\x01'"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', "2: expected valid YAML, found an escape that is no character"),
        ("a: 1\nb: " + "[" * 5000, "2: expected valid YAML, found values nested too deeply"),
    ],
)
def test_what_is_no_plain_yaml_mapping_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    assert any(line.startswith(f"{path}:{message}") for line in error(path).split("\n")), error(path)


def test_aliases_of_aliases_do_not_fill_the_memory(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert f"expected at most {MOST_VALUES} values, found more" in error(write(tmp_path, "\n".join(lines)))


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + LOCAL.replace("\n", "\r\n").encode())
    assert load_job(path).job.name == "movie-clicks"
    path.write_bytes(LOCAL.replace("512", "x").replace("\n", "\r\n").encode())
    assert f"{path}:75: training.batch_size" in error(path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert error(tmp_path / "no.yaml") == f"{tmp_path}/no.yaml: expected a job file, found no such file"
    assert error(tmp_path) == f"{tmp_path}: expected a job file, found a folder"
    write(tmp_path, LOCAL)
    assert "found: Not a directory" in error(tmp_path / "job.yaml" / "x")
    assert "found: embedded null byte" in error(Path(f"{tmp_path}/a\0b"))
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe4\n")
    assert error(tmp_path / "latin.yaml").endswith("latin.yaml:2: expected UTF-8 text, found other bytes")
    (tmp_path / "large.yaml").write_bytes(b"#" * (5 * 2**20))
    assert error(tmp_path / "large.yaml").endswith("at most 4194304 bytes, found a larger one")


def test_the_folder_is_the_files_wherever_the_process_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    write(tmp_path / "jobs", LOCAL)
    monkeypatch.chdir(tmp_path)
    found = load_job("jobs/job.yaml")
    assert (found.path, found.folder) == ("jobs/job.yaml", os.path.join(tmp_path, "jobs"))
    assert found.output == os.path.join(tmp_path, "jobs", "run")
