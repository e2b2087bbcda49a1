"""Worker 0's look at a folder: when a file is taken, and when it is told to be wrong."""

from __future__ import annotations

from pathlib import Path

from data.columns import Column
from data.read.read_spec import ReadSpec
from ps_cluster.train.folder_watch import FolderWatch
from tests.data.orc_files import numbered


def watch(folder: Path) -> FolderWatch:
    spec = ReadSpec((), (Column("id", "int64"),), batch_rows=8)
    return FolderWatch(str(folder), spec, 3600.0, ())


def test_a_file_that_still_grows_is_looked_at_again(tmp_path: Path) -> None:
    whole = Path(numbered(tmp_path / "whole", [10, 5])).read_bytes()
    (tmp_path / "a.orc").write_bytes(whole[:50])
    numbered(tmp_path / "b.orc", [3])
    looks = watch(tmp_path)
    looks._look()
    assert [(one.name, one.rows, one.problem) for one in looks.take(9)] == [("b.orc", 3, "")]
    (tmp_path / "a.orc").write_bytes(whole)
    looks._look()
    assert [(one.name, one.rows, one.problem) for one in looks.take(9)] == [("a.orc", 15, "")]
    looks._look()
    assert looks.take(9) == []


def test_a_file_that_stays_damaged_or_lacks_a_column_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(b"nothing of the kind")
    spec = ReadSpec((), (Column("wrong", "int64"),), batch_rows=8)
    numbered(tmp_path / "b.orc", [3])
    looks = FolderWatch(str(tmp_path), spec, 3600.0, ())
    looks._look()
    assert looks.take(9) == []
    looks._look()
    damaged, lacking = looks.take(9)
    assert damaged.name == "a.orc" and "expected an ORC file" in damaged.problem
    assert lacking.name == "b.orc" and "column wrong" in lacking.problem


def test_a_folder_that_is_away_is_not_idle(tmp_path: Path) -> None:
    looks = watch(tmp_path / "away")
    looks._last_new -= 100.0
    assert looks.idle_seconds >= 100.0
    looks._look()
    assert looks.idle_seconds < 100.0
