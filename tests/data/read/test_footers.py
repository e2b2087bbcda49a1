"""What is checked before a row is read."""

from decimal import Decimal

import pytest

from data.columns import Column
from data.errors import DataError
from data.read.footers import Footer, check_files, read_each, read_footers
from tests.data import orc_files

COLUMNS = (Column("id", "int64"), Column("score", "float32"), Column("items", "int64_list"))


def problems(paths, columns=COLUMNS):
    with pytest.raises(DataError) as error:
        check_files(paths, columns)
    return str(error.value).splitlines()


def test_totals_are_those_of_the_files(tmp_path):
    a = orc_files.numbered(tmp_path / "a.orc", [5, 7, 1])
    b = orc_files.numbered(tmp_path / "b.orc", [4])
    summary = check_files([a, b], COLUMNS)
    sizes = sum((tmp_path / name).stat().st_size for name in ("a.orc", "b.orc"))
    assert (summary.files, summary.rows, summary.stripes, summary.file_bytes) == (2, 17, 4, sizes)


def test_stripes_are_those_pyorc_sees(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [5, 7, 1])
    (footer,) = read_footers([path], COLUMNS)
    assert [stripe.rows for stripe in footer.stripes] == orc_files.stripe_rows(path) == [5, 7, 1]
    assert [stripe.first_row for stripe in footer.stripes] == [0, 5, 12]


def test_a_missing_file_is_named(tmp_path):
    path = f"{tmp_path}/none.orc"
    assert problems([path]) == [f"{path}: expected an ORC file, found no file by that name"]


def test_a_folder_is_not_a_file(tmp_path):
    assert problems([str(tmp_path)]) == [f"{tmp_path}: expected a readable ORC file, found: Is a directory"]


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "a.orc").touch()
    assert problems([f"{tmp_path}/a.orc"]) == [f"{tmp_path}/a.orc: expected an ORC file, found an empty file (0 bytes)"]


def test_a_file_that_is_not_orc_is_named(tmp_path):
    (tmp_path / "a.orc").write_text("id,score\n1,2\n")
    assert problems([f"{tmp_path}/a.orc"]) == [
        f"{tmp_path}/a.orc: expected an ORC file, found one that starts with b'id,'"
    ]


def test_a_file_cut_short_anywhere_is_named(tmp_path):
    orc_files.numbered(tmp_path / "a.orc", [50, 50])
    content = (tmp_path / "a.orc").read_bytes()
    cut = tmp_path / "cut.orc"
    for length in (3, 4, 10, len(content) // 2, len(content) - 1):
        cut.write_bytes(content[:length])
        (line,) = problems([str(cut)])
        assert line.startswith(f"{cut}: expected an ORC file, found a truncated or damaged one"), line


def test_a_missing_column_suggests_the_nearest_name_or_lists_what_there_is(tmp_path):
    path = orc_files.numbered(tmp_path / "a.orc", [5])
    assert problems([path], [Column("scores", "float32"), Column("user", "int64")]) == [
        f"{path}: column scores: expected a number (float, double, integer or boolean), "
        "found no such column; did you mean score?",
        f"{path}: column user: expected an integer or boolean, found no such column; the file has: id, score, items",
    ]


def test_a_wrong_type_tells_what_was_found(tmp_path):
    path = orc_files.write(
        tmp_path / "a.orc",
        "struct<a:string,b:double,c:array<string>,d:decimal(9,2)>",
        [[("x", 1.0, ["y"], Decimal(2))]],
    )
    columns = [Column("a", "int64"), Column("b", "int64"), Column("c", "int64_list"), Column("d", "float32")]
    assert problems([path], columns) == [
        f"{path}: column a: expected an integer or boolean, found string",
        f"{path}: column b: expected an integer or boolean, found double",
        f"{path}: column c: expected an array of integers, found list<item: string>",
        f"{path}: column d: expected a number (float, double, integer or boolean), found decimal128(9, 2)",
    ]


def test_all_problems_of_all_files_are_told_at_once(tmp_path):
    good = orc_files.numbered(tmp_path / "a.orc", [5])
    (tmp_path / "b.orc").touch()
    other = orc_files.write(tmp_path / "c.orc", "struct<id:string,score:float>", [[("x", 1.0)]])
    lines = problems([good, f"{tmp_path}/b.orc", other, f"{tmp_path}/d.orc"])
    assert [line.split(": expected")[0] for line in lines] == [
        f"{tmp_path}/b.orc",
        f"{other}: column id",
        f"{other}: column items",
        f"{tmp_path}/d.orc",
    ]


def test_a_long_list_of_problems_is_cut(tmp_path):
    lines = problems([f"{tmp_path}/{i}.orc" for i in range(25)])
    assert len(lines) == 21
    assert lines[-1] == "and 5 more problems"


def test_a_file_without_rows_is_fine_beside_one_with_rows_but_not_alone(tmp_path):
    empty = orc_files.numbered(tmp_path / "a.orc", [])
    full = orc_files.numbered(tmp_path / "b.orc", [3])
    assert check_files([empty, full], COLUMNS).rows == 3
    assert problems([empty]) == [f"{empty}: expected at least one row, found none"]


def test_footers_come_in_the_order_of_their_paths_with_what_is_wrong_in_place(tmp_path):
    paths = [orc_files.numbered(tmp_path / f"{i}.orc", [i + 1] * 3) for i in range(40)]
    paths[20:20] = [f"{tmp_path}/none.orc"]
    found = read_each(paths)
    assert [footer.path for footer in found if isinstance(footer, Footer)] == paths[:20] + paths[21:]
    assert [len(f.stripes) and f.stripes[0].rows for f in found[:20] + found[21:]] == list(range(1, 41))
    assert str(found[20]) == f"{paths[20]}: expected an ORC file, found no file by that name"
