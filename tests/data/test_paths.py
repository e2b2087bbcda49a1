"""Which files a user's patterns name."""

import pytest

from data.errors import DataError
from data.paths import expand


@pytest.fixture
def folder(tmp_path):
    for name in ("b.orc", "a.orc", "_SUCCESS", "day=1/x.orc", "day=2/y.orc", "day=2/.x.crc", "we[i]rd.orc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    return tmp_path


def names(folder, patterns):
    return [file[len(str(folder)) + 1 :] for file in expand(patterns, str(folder))]


def test_a_file_names_itself(folder):
    assert names(folder, ["_SUCCESS"]) == ["_SUCCESS"]


def test_an_absolute_path_does_not_start_at_the_base(folder):
    assert expand([str(folder / "a.orc")], "/elsewhere") == [str(folder / "a.orc")]


def test_a_folder_names_its_orc_files_sorted_and_not_those_of_its_folders(folder):
    assert names(folder, ["."]) == ["./a.orc", "./b.orc", "./we[i]rd.orc"]


def test_a_glob_is_sorted(folder):
    assert names(folder, ["?.orc"]) == ["a.orc", "b.orc"]


def test_a_glob_that_matches_folders_names_the_files_in_them(folder):
    assert names(folder, ["day=*"]) == ["day=1/x.orc", "day=2/y.orc"]


def test_two_stars_cross_folders(folder):
    assert names(folder, ["**/[xy].orc"]) == ["day=1/x.orc", "day=2/y.orc"]


def test_a_name_with_brackets_that_exists_is_meant_literally(folder):
    assert names(folder, ["we[i]rd.orc"]) == ["we[i]rd.orc"]


def test_patterns_keep_their_order_and_a_file_named_twice_counts_once(folder):
    assert names(folder, ["day=2", "b.orc", "*.orc"]) == ["day=2/y.orc", "b.orc", "a.orc", "we[i]rd.orc"]


def test_every_pattern_without_a_file_gets_its_line(folder):
    with pytest.raises(DataError) as error:
        expand(["a.orc", "nope.orc", "empty", "n*.orc", "emp*"], str(folder))
    assert str(error.value).splitlines() == [
        f"{folder}/nope.orc: expected a file or folder, found nothing by that name",
        f"{folder}/empty: expected a folder with .orc files, found none in it",
        f"{folder}/n*.orc: expected a pattern that names files, found no file that matches",
        f"{folder}/emp*: expected a pattern that names files, found only folders without .orc files",
    ]
