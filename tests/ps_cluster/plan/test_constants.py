"""What a machine was measured to do is kept in a file that says when it is not what was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ps_cluster.errors import UserError
from ps_cluster.plan import constants

MEASURED = {"ps_id_seconds": 1e-7, "dense_flops": 5e10}
MACHINE = {"cpu": "a CPU", "cores": 4, "measured": "2026-01-01T00:00:00+00:00"}


def test_what_is_stored_is_loaded_and_says_of_which_machine_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "constants.json")
    constants.store(path, MEASURED, MACHINE)
    found = constants.load(path)
    assert found.values["ps_id_seconds"] == 1e-7
    assert found.values["worker_id_seconds"] == constants.CONSTANTS["worker_id_seconds"].default
    assert found.measured == set(MEASURED)
    assert "a CPU (4 cores)" in found.source and path in found.source


def test_without_measurements_stated_defaults_are_used_and_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = constants.load(None)
    assert found.source.startswith("stated defaults, not measured")
    assert not found.measured


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found["constants"].update(ps_id_seconds=1.0), "sha256: expected that of the content"),
        (lambda found: found.update(format_version=9), "format_version: expected 1, found 9"),
        (lambda found: found.pop("sha256"), "expected constants of format 1, found another file"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, change, words: str) -> None:
    path = tmp_path / "constants.json"
    constants.store(str(path), MEASURED, MACHINE)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(UserError, match=words):
        constants.load(str(path))


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found no file"):
        constants.load(str(tmp_path / "absent.json"))
