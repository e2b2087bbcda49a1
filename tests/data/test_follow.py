"""Which files are new in a folder that files are added to."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.errors import DataError
from data.follow import check_followable, name_hash, new_files


def test_whole_files_are_new_once_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.orc", "a.orc", ".hidden.orc", "c.partial.orc", "d.orc.partial", "e.txt"):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / "folder.orc").mkdir()
    assert new_files(str(tmp_path), ()) == [("a.orc", 5), ("b.orc", 5)]
    assert new_files(str(tmp_path), {name_hash("a.orc")}) == [("b.orc", 5)]


def test_a_folder_that_is_not_there_or_closed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none by that name"):
        check_followable(str(tmp_path / "nope"))
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(DataError, match="closes"):
        check_followable(str(tmp_path))
