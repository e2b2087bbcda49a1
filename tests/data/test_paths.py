"""Which files a user's patterns name."""

import json
import os

import pytest

from data.convert.work import Work
from data.errors import DataError
from data.paths import expand, unlisted


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


def test_a_folder_of_folders_is_told_how_to_be_named(tmp_path):
    for day in (1, 2):
        (tmp_path / "all" / f"day={day}").mkdir(parents=True)
        (tmp_path / "all" / f"day={day}" / "part-0.orc").write_text("x")
    with pytest.raises(DataError) as told:
        expand(["all"], str(tmp_path))
    pattern = str(told.value).rpartition(": ")[2]
    assert "only in its sub-folders" in str(told.value)
    assert expand([pattern], "/") == [f"{tmp_path}/all/day={day}/part-0.orc" for day in (1, 2)]


@pytest.mark.parametrize("base", ["/", "."])
def test_an_empty_name_names_nothing(base):
    with pytest.raises(DataError, match="'': expected a file, folder or pattern, found an empty name"):
        expand([""], base)


def test_the_base_folder_may_have_brackets_in_its_name(tmp_path):
    base = tmp_path / "a [1] b"
    base.mkdir()
    (base / "x.orc").touch()
    assert expand(["*.orc"], str(base)) == [f"{base}/x.orc"]


def test_file_addresses_name_files_folders_and_patterns(folder):
    url = f"file://{folder}"
    assert names(folder, [f"{url}/a.orc", f"{url}/day=2", f"{url}/?.orc"]) == ["a.orc", "day=2/y.orc", "b.orc"]


def listed(folder, items, version=1):
    (folder / "manifest.json").write_text(json.dumps({"format_version": version, "files": items}))


def test_a_folder_with_a_manifest_is_what_the_manifest_lists(folder):
    (folder / "b.orc").write_bytes(b"12345")
    listed(folder, [{"name": "b.orc", "bytes": 5, "rows": 1}, {"name": "day=1/x.orc", "bytes": 0}])
    for pattern in ("manifest.json", ".", f"file://{folder}", str(folder), "manif*"):
        assert [os.path.normpath(file) for file in expand([pattern], str(folder))] == [
            f"{folder}/b.orc",
            f"{folder}/day=1/x.orc",
        ]
    assert names(folder, ["?.orc"]) == ["a.orc", "b.orc"]


def test_what_lies_beside_a_manifest_without_being_listed_is_found(folder):
    (folder / "manifest.json").write_text(
        json.dumps({"format_version": 1, "files": [{"name": "a.orc", "bytes": 0}, {"name": "day=1/x.orc", "bytes": 0}]})
    )

    def found(*patterns):
        return [os.path.relpath(path, folder) for path in unlisted(patterns, str(folder))]

    assert found(".") == found("./manifest.json", ".") == found(f"{folder}/") == ["b.orc", "we[i]rd.orc"]
    assert found(".", "b.orc") == ["we[i]rd.orc"]
    assert found("day=2", "a.orc", "?.orc") == []


def test_a_conversion_without_its_manifest_is_refused(folder):
    work = Work(str(folder / "out"))
    assert work.begin({"of": 1}, overwrite=False) is None
    (folder / "out" / "part-00000.orc").touch()
    for pattern in ("out", "out/", "ou*"):
        with pytest.raises(DataError, match=r"out/?: expected a finished conversion, found one under way"):
            expand([pattern], str(folder))
    work.finish({"format_version": 1, "files": [{"name": "part-00000.orc", "bytes": 0}]})
    assert names(folder, ["out"]) == ["out/part-00000.orc"]


def test_listed_files_that_are_missing_or_of_another_size_are_told(folder):
    listed(folder, [{"name": "b.orc", "bytes": 5}, {"name": "a.orc", "bytes": 0}, {"name": "z.orc", "bytes": 0}])
    with pytest.raises(DataError) as error:
        expand(["."], str(folder))
    manifest = f"{folder}/./manifest.json"
    assert str(error.value).splitlines() == [
        f"{folder}/./b.orc: expected 5 bytes, as {manifest} lists it, found 0; the file was changed or is not whole",
        f"{folder}/./z.orc: expected the file that {manifest} lists, found none by that name",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected a manifest in JSON, found: Expecting property name"),
        ("[]", "expected a manifest of format_version 1, found None"),
        ('{"format_version": 2, "files": []}', "expected a manifest of format_version 1, found 2"),
        ('{"format_version": 1, "files": {}}', "files: expected a list, found dict"),
        ('{"format_version": 1, "files": []}', "files: expected at least one, found none"),
        ('{"format_version": 1, "files": ["a"]}', "files[0]: expected an object, found str"),
        (
            '{"format_version": 1, "files": [{"name": "../a", "bytes": 1}]}',
            "files[0]: name: expected a name below the manifest's folder, found '../a'",
        ),
        (
            '{"format_version": 1, "files": [{"name": "a", "bytes": "1"}]}',
            "files[0]: bytes: expected a number of bytes, found '1'",
        ),
    ],
)
def test_what_is_no_manifest_is_said(tmp_path, text, said):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError) as error:
        expand(["manifest.json"], str(tmp_path))
    assert str(error.value).startswith(f"{tmp_path}/manifest.json: {said}")
    assert "\n" not in str(error.value)


NAMES = (
    "b.orc",
    "a.orc",
    "_SUCCESS",
    "day=1/x.orc",
    "day=2/y.orc",
    "day=2/.x.orc",
    "we[i]rd.orc",
    ".hid/den.orc",
    "a b.orc",
)


PATTERNS = [
    "_SUCCESS",
    "",
    "?.orc",
    "*.orc",
    "day=*",
    "day=?/*.orc",
    "**/[xy].orc",
    "**/*.orc",
    "**",
    "we[i]rd.orc",
    "day=2/.*",
    "[!a]*",
    "a b.orc",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_on_s3_name_what_they_name_here(s3, tmp_path, pattern):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        s3.put(f"in/{name}", b"")
    here = expand([f"{tmp_path}/{pattern}"], "/")
    there = expand([f"{s3.url}/in/{pattern}"], "/somewhere")
    assert [name.removeprefix(f"{s3.url}/in/") for name in there] == [n.removeprefix(f"{tmp_path}/") for n in here]


def test_patterns_on_s3_without_a_file_get_their_line(s3):
    s3.put("empty/x.txt", b"")
    url = s3.url
    with pytest.raises(DataError) as error:
        expand([f"{url}/nope.orc", f"{url}/empty", f"{url}/n*.orc", f"{url}/emp*", "s3://b*/x"], "/")
    assert str(error.value).splitlines() == [
        f"{url}/nope.orc: expected a file or folder, found nothing by that name",
        f"{url}/empty: expected a folder with .orc files, found none in it",
        f"{url}/n*.orc: expected a pattern that names files, found no file that matches",
        f"{url}/emp*: expected a pattern that names files, found only folders without .orc files",
        "s3://b*/x: expected wildcards only behind s3://name/, found them in 'b*'",
    ]


def test_a_manifest_on_s3_names_its_files(s3):
    s3.put("set/b.orc", b"12345")
    s3.put("set/sub/a.orc", b"1")
    s3.put("set/other.orc", b"1")
    items = [{"name": "b.orc", "bytes": 5}, {"name": "sub/a.orc", "bytes": 1}]
    s3.put("set/manifest.json", json.dumps({"format_version": 1, "files": items}).encode())
    for pattern in ("set", "set/", "set/manifest.json", "se*"):
        assert expand([f"{s3.url}/{pattern}"], "/") == [f"{s3.url}/set/b.orc", f"{s3.url}/set/sub/a.orc"]
    s3.put("set/b.orc", b"123")
    with pytest.raises(DataError, match=f"^{s3.url}/set/b.orc: expected 5 bytes, as .* lists it, found 3"):
        expand([f"{s3.url}/set"], "/")


def test_what_a_manifest_on_s3_does_not_list_is_found(s3):
    s3.put("log/manifest.json", b'{"format_version": 1, "files": [{"name": "a.orc", "bytes": 1}]}')
    for name in ("a.orc", "b.orc", "c.txt", "sub/d.orc"):
        s3.put(f"log/{name}", b"1")
    assert unlisted([f"{s3.url}/log"], "/") == unlisted([f"{s3.url}/log/manifest.json"], "/") == [f"{s3.url}/log/b.orc"]


def test_local_and_remote_patterns_keep_their_order(s3, folder):
    url = s3.put("x.orc", b"")
    assert expand([url, "b.orc", f"{s3.url}/*.orc", "a.orc"], str(folder)) == [
        url,
        f"{folder}/b.orc",
        f"{folder}/a.orc",
    ]
